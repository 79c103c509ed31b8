//! Syncs of pods: their eviction.

use serde_json::json;
use steersman_api::{ArcStr, Meta, ObjectKey, Time, Uid};
use steersman_client::events::EventType;
use steersman_controller::client::{Delete, Deleted, Patch, event_reference};
use steersman_controller::controller::SyncError;
use steersman_informer::wire::{Group, Object};
use steersman_informer::{IndexValue, View};
use steersman_kinds::device_allocation::{AllocatedDevice, AllocatedDevices, Reservations};
use steersman_kinds::pod::{Disruption, DisruptionReason, Placement, Pod};
use steersman_kinds::pod_device_claims::{DeviceClaimStatus, DeviceClaims};
use steersman_kinds::pod_group::Membership;
use steersman_kinds::resource_slice::TaintedDevices;

use super::controller::{EvictionController, PlannedEviction};
use super::eviction::{Consumer, Eviction, FoundTaint, SliceOfPool, UsedClaim, eviction, taints_in};
use super::key::Key;
use super::plan::{Live, Observed, Planned, Step};
use super::rule::STATUS_PERIOD;
use super::{AllocatedClaim, ClaimingPod, pool};
use crate::pod_claim::Named;
use crate::unreadable;

/// The reason of the condition `DisruptionTarget`.
const REASON: &str = "DeletionByDeviceTaintManager";
const MESSAGE: &str = "Device Taint manager: deleting due to NoExecute taint";
/// The reason of the controller's events.
const EVENT: &str = "DeviceTaintManagerEviction";

/// The result of a step.
#[derive(Debug)]
pub(super) enum Outcome {
    Done,
    Read(Live),
}

impl EvictionController {
    /// The pod's state. `None` if it is gone or going.
    pub(super) fn observe_pod(&self, key: &ObjectKey) -> Result<Option<Observed>, SyncError> {
        let pod = self.pods.get(key).map_err(unreadable("Pod"))?;
        let Some(pod) = pod.filter(|pod| !pod.meta().is_deleting()) else {
            // It goes anyway: no event says so.
            self.planned.lock().remove(key);
            return Ok(None);
        };
        let uid = pod.meta().uid.clone();
        let eviction = if pod.get::<Placement>().node.is_empty() { None } else { self.eviction(&pod)? };
        let planned = match self.planned.lock().get(key).filter(|planned| planned.uid == uid) {
            None => Planned::No,
            Some(planned) => {
                let reasons = eviction.as_ref().map(|eviction| &eviction.rules);
                let knows_all = reasons.is_none_or(|reasons| reasons.is_subset(&planned.rules));
                if knows_all { Planned::Yes } else { Planned::ForLess }
            }
        };
        Ok(Some(Observed { uid, eviction, planned, live: None }))
    }

    fn eviction(&self, pod: &View<ClaimingPod>) -> Result<Option<Eviction>, SyncError> {
        let rules = self.rules.as_ref().map(|rules| rules.evicting());
        let taints = |device: &AllocatedDevice| {
            let mut taints = self.published_taints(device)?;
            taints.extend(rules.iter().flat_map(|rules| rules.of(device)));
            Ok(taints)
        };
        let consumer = Consumer { uid: pod.meta().uid.clone(), group: self.group_of(pod) };
        Ok(eviction(&consumer, &self.used_claims(pod, taints)?))
    }

    /// The PodGroup of a pod. `None` without the gate of claims of PodGroups.
    pub(super) fn group_of(&self, pod: &View<ClaimingPod>) -> Option<ArcStr> {
        self.indexes.pods_by_group?;
        pod.get::<Membership>().group.name.as_ref().map(|name| name.as_arc().clone())
    }

    /// The claims that a pod names, with the taints of their devices.
    pub(super) fn used_claims(
        &self,
        pod: &View<ClaimingPod>,
        taints: impl Fn(&AllocatedDevice) -> Result<Vec<FoundTaint>, SyncError>,
    ) -> Result<Vec<UsedClaim>, SyncError> {
        let generated = pod.get::<DeviceClaimStatus>().generated();
        let mut used = Vec::new();
        for claim in pod.get::<DeviceClaims>().list() {
            let named = Named::of(claim, generated);
            let Some(name) = named.name() else { continue };
            let key = ObjectKey { namespace: pod.meta().key.namespace.clone(), name: name.as_arc().clone() };
            let Some(claim) = self.claims.get(&key).map_err(unreadable("ResourceClaim"))? else { continue };
            let results = claim.get::<AllocatedDevices>().allocation.devices.results.iter();
            let devices = results.map(|device| Ok((device.clone(), taints(device)?)));
            used.push(UsedClaim {
                is_generated: matches!(named, Named::Generated(_)),
                meta: claim.meta().clone(),
                reserved_for: claim.get::<Reservations>().reserved_for.clone(),
                devices: devices.collect::<Result<_, SyncError>>()?,
            });
        }
        Ok(used)
    }

    /// The pods that a claim is reserved for, those of PodGroups included.
    pub(super) fn consumers(&self, claim: &View<AllocatedClaim>) -> impl Iterator<Item = ObjectKey> {
        consumers(claim, |group| {
            let mut pods = Vec::new();
            if let Some(index) = &self.indexes.pods_by_group {
                self.pods.for_each_meta_by_index(index, group, |pod| pods.push(pod.key.clone()));
            }
            pods
        })
    }

    /// The taints that a device's driver gives it.
    fn published_taints(&self, device: &AllocatedDevice) -> Result<Vec<FoundTaint>, SyncError> {
        let of = pool(&device.driver, &device.pool);
        let slices =
            self.slices.by_index(&self.indexes.slices_by_pool, &of).map_err(unreadable("ResourceSlice"))?;
        let slices: Vec<_> = slices
            .iter()
            .map(|slice| {
                let TaintedDevices { pool, devices, .. } = slice.get();
                let tainted = devices.0.iter().find(|tainted| tainted.name == device.device);
                let taints = tainted.map(|tainted| tainted.taints.as_slice());
                SliceOfPool { generation: pool.generation, taints }
            })
            .collect();
        let taints = taints_in(&slices).iter();
        Ok(taints.map(|taint| FoundTaint { taint: taint.clone(), rule: None }).collect())
    }

    pub(super) async fn act_on_pod(
        &self,
        key: &ObjectKey,
        observed: &Observed,
        step: &Step,
    ) -> Result<Outcome, SyncError> {
        let rules = observed.eviction.as_ref().map(|eviction| &eviction.rules);
        match step {
            Step::Remember => {
                let rules = rules.cloned().unwrap_or_default();
                // More pods may follow soon, so that one write of the status tells of all.
                rules.iter().for_each(|rule| self.tell_later(&rule.name));
                let planned = PlannedEviction { uid: observed.uid.clone(), rules };
                self.planned.lock().insert(key.clone(), planned);
            }
            Step::Forget => _ = self.planned.lock().remove(key),
            Step::Cancel => {
                self.planned.lock().remove(key);
                self.event(key, &observed.uid, "Cancelling deletion");
            }
            Step::Read => return self.read(key, &observed.uid).await.map(Outcome::Read),
            Step::Evict { uid, due, mark } => {
                let is_evicted = self.evict(key, uid, *due, *mark).await?;
                if let (true, Some(of), Some(rules)) = (is_evicted, &self.rules, rules) {
                    of.count(rules);
                    rules.iter().for_each(|rule| self.tell_later(&rule.name));
                }
            }
        }
        Ok(Outcome::Done)
    }

    fn tell_later(&self, rule: &ArcStr) {
        self.queue.add_after(Key::Rule(rule.clone()), STATUS_PERIOD);
    }

    fn event(&self, key: &ObjectKey, uid: &Uid, message: &str) {
        let meta = Meta { key: key.clone(), uid: uid.clone(), ..Meta::default() };
        self.recorder.event(&event_reference::<Pod>(&meta), EventType::Normal, EVENT, message);
    }

    async fn read(&self, key: &ObjectKey, uid: &Uid) -> Result<Live, SyncError> {
        let pod = self.client.get(key).await?;
        Ok(match pod {
            Some(pod) if pod.meta().uid == *uid && !pod.meta().is_deleting() => {
                let groups = Disruption::of(&pod).zip(DisruptionReason::of(&pod));
                let (disruption, reason) = groups.expect("the groups that the controller reads must be kept");
                let is_disrupted = disruption.target.is_true();
                let since = disruption.target.last_transition_time;
                let is_own = reason.target.reason.as_deref() == Some(REASON);
                Live::Runs {
                    disrupted_since: since.filter(|_| is_disrupted),
                    is_marked: is_disrupted && is_own,
                }
            }
            _ => Live::Gone,
        })
    }

    /// Marks and deletes a pod. Returns whether it did: not if the pod is gone.
    ///
    /// After a conflict the next sync reads the pod again: another pod may have its name, or other writes came first.
    async fn evict(
        &self,
        key: &ObjectKey,
        uid: &Uid,
        due: Time,
        mark: Option<Time>,
    ) -> Result<bool, SyncError> {
        self.event(key, uid, "Marking for deletion");
        if let Some(since) = mark {
            let patch = Patch::Strategic(json!({"metadata": {"uid": uid}, "status": {"conditions": [{
                "type": "DisruptionTarget",
                "status": "True",
                "reason": REASON,
                "message": MESSAGE,
                "lastProbeTime": null,
                "lastTransitionTime": since,
            }]}}));
            let marked = self.client.patch_status(key, &patch).await?;
            if marked.or_conflict(|| format!("marking pod {key} for deletion"))?.is_none() {
                return Ok(false);
            }
        }
        match self.client.delete(key, &Delete::of(uid)).await? {
            Deleted::Now(..) => {}
            Deleted::Gone => return Ok(false),
            Deleted::Conflict(status) => {
                return Err(SyncError::Refused { what: format!("deleting pod {key}"), status });
            }
        }
        let late = self.clock.timestamp().duration_since(due.into());
        tracing::info!(pod = %key, seconds = late.as_secs_f64(), "Evicted pod by deleting it");
        self.metrics.deleted(late.as_secs_f64());
        Ok(true)
    }
}

/// The pods that a claim is reserved for. `members` finds the pods of a PodGroup.
pub(super) fn consumers(
    claim: &View<AllocatedClaim>,
    members: impl Fn(&IndexValue) -> Vec<ObjectKey>,
) -> impl Iterator<Item = ObjectKey> {
    let namespace = claim.meta().key.namespace.clone();
    let consumers = claim.get::<Reservations>().reserved_for.clone().into_iter();
    consumers.flat_map(move |consumer| {
        if consumer.is_pod() {
            vec![ObjectKey { namespace: namespace.clone(), name: consumer.name }]
        } else if consumer.is_pod_group() {
            members(&IndexValue::Pair(namespace.clone(), consumer.name))
        } else {
            Vec::new()
        }
    })
}
