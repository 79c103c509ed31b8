//! Which pods a change may concern.

use steersman_api::ObjectKey;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, IndexValue, Lister, View};
use steersman_kinds::device_allocation::Reservations;
use steersman_kinds::pod::Placement;
use steersman_kinds::pod_device_claims::{DeviceClaimStatus, DeviceClaims};
use steersman_kinds::resource_slice::TaintedDevices;

use super::controller::Indexes;
use super::{AllocatedClaim, ClaimingPod, TaintedSlice, pool, pools_of_claim};

/// Queues pods.
pub(super) struct Mapping {
    pub claims: Lister<AllocatedClaim>,
    pub slices: Lister<TaintedSlice>,
    pub indexes: Indexes,
    pub queue: WorkQueue<ObjectKey>,
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
            self.queue.add(change.key().clone());
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
        let namespace = &claim.meta().key.namespace;
        let pods = claim.get::<Reservations>().reserved_for.iter().filter(|consumer| consumer.is_pod());
        for pod in pods {
            self.queue.add(ObjectKey { namespace: namespace.clone(), name: pod.name.clone() });
        }
    }
}
