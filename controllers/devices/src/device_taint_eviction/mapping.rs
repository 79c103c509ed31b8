//! Which pods and DeviceTaintRules a change may concern.

use std::sync::Arc;

use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, IndexValue, Lister, View};
use steersman_kinds::device_allocation::AllocatedDevices;
use steersman_kinds::device_taint::NO_EXECUTE;
use steersman_kinds::device_taint_rule::TaintRule;
use steersman_kinds::pod::Placement;
use steersman_kinds::pod_device_claims::{DeviceClaimStatus, DeviceClaims};
use steersman_kinds::resource_slice::TaintedDevices;

use super::controller::Indexes;
use super::key::Key;
use super::pod_syncs::consumers;
use super::rules::Rules;
use super::{AllocatedClaim, CachedRule, ClaimingPod, TaintedSlice, pool, pools_of_claim};

/// Queues pods and DeviceTaintRules.
pub(super) struct Mapping {
    pub pods: Lister<ClaimingPod>,
    pub claims: Lister<AllocatedClaim>,
    pub slices: Lister<TaintedSlice>,
    /// `None` without the gate of DeviceTaintRules.
    pub rules: Option<Arc<Rules>>,
    pub indexes: Indexes,
    pub queue: WorkQueue<Key>,
}

impl Mapping {
    /// Queues the pod if its claims or its node have changed. An eviction's own writes change neither.
    pub(super) fn pod_changed(&self, change: &Change<ClaimingPod>) {
        if change.newest().get::<DeviceClaims>().list().is_empty() {
            return;
        }
        let is_same = match change {
            Change::Updated { old, new } => {
                let node = |pod: &View<ClaimingPod>| pod.get::<Placement>().node.clone();
                let claims = |pod| View::<ClaimingPod>::get::<DeviceClaimStatus>(pod).generated();
                old.meta().uid == new.meta().uid && node(old) == node(new) && claims(old) == claims(new)
            }
            _ => false,
        };
        if !is_same {
            self.queue.add(Key::Pod(change.key().clone()));
        }
    }

    /// Queues the rule if its spec has changed, and the consumers of all claims with devices that it selects or selected, if it
    /// ends or ended pods.
    pub(super) fn rule_changed(&self, change: &Change<CachedRule>) {
        let [old, new] = [change.old(), change.new()];
        let gone = old.filter(|old| new.is_none_or(|new| new.meta().uid != old.meta().uid));
        if let (Some(gone), Some(rules)) = (gone, &self.rules) {
            rules.evicted.lock().remove(&gone.meta().uid);
        }
        let [old, new] = [old, new].map(|rule| rule.map(View::get::<TaintRule>));
        if gone.is_none() && matches!(change, Change::Updated { .. }) && old == new {
            return;
        }
        // The status is written before pods are evicted, if possible.
        self.queue.add(Key::Rule(change.key().name.clone()));
        let rules: Vec<_> =
            old.into_iter().chain(new).filter(|rule| rule.taint.effect == NO_EXECUTE).collect();
        if rules.is_empty() {
            return;
        }
        for claim in self.claims.list_readable().0 {
            let devices = &claim.get::<AllocatedDevices>().allocation.devices.results;
            let is_concerned = devices.iter().any(|device| {
                rules.iter().any(|rule| rule.taints(&device.driver, &device.pool, &device.device))
            });
            if is_concerned {
                self.queue_consumers(&claim);
            }
        }
    }

    /// Queues the consumers of a claim, those before the change too.
    pub(super) fn claim_changed(&self, change: &Change<AllocatedClaim>) {
        change.old().into_iter().chain(change.new()).for_each(|claim| self.queue_consumers(claim));
    }

    /// Queues the consumers of all claims with devices of the slice's pool, if the pool has or had a tainted device.
    pub(super) fn slice_changed(&self, change: &Change<TaintedSlice>) {
        let [old, new] = [change.old(), change.new()].map(|slice| slice.map(View::get::<TaintedDevices>));
        if matches!(change, Change::Updated { .. }) && old == new {
            return;
        }
        let mut pools: Vec<IndexValue> = Vec::new();
        for slice in old.into_iter().chain(new) {
            let of = pool(&slice.driver, &slice.pool.name);
            let is_tainted = |slice: &TaintedDevices| !slice.devices.0.is_empty();
            // A new generation of one slice makes all others outdated.
            let has_taints = [old, new].into_iter().flatten().any(is_tainted)
                || self
                    .slices
                    .by_index(&self.indexes.slices_by_pool, &of)
                    .is_ok_and(|slices| slices.iter().any(|slice| is_tainted(slice.get::<TaintedDevices>())));
            if has_taints && !pools.contains(&of) {
                pools.push(of);
            }
        }
        for of in pools {
            match self.claims.by_index(&self.indexes.claims_by_pool, &of) {
                Ok(claims) => claims.iter().for_each(|claim| self.queue_consumers(claim)),
                // One claim that can't be read must not hold up the consumers of the others.
                Err(_) => {
                    let claims = self.claims.list_readable().0;
                    let in_pool = claims.iter().filter(|claim| pools_of_claim(claim).contains(&of));
                    in_pool.for_each(|claim| self.queue_consumers(claim));
                }
            }
        }
    }

    fn queue_consumers(&self, claim: &View<AllocatedClaim>) {
        let members = |group: &IndexValue| {
            let mut pods = Vec::new();
            if let Some(index) = &self.indexes.pods_by_group {
                self.pods.for_each_meta_by_index(index, group, |pod| pods.push(pod.key.clone()));
            }
            pods
        };
        consumers(claim, members).for_each(|pod| self.queue.add(Key::Pod(pod)));
    }
}
