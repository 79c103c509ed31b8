//! Syncs of pods: where observations come from, and how steps are carried out.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::json;
use steersman_api::{Meta, ObjectKey, Time, Uid};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::client::{Changed, Client, Delete, Deleted, Patch, event_reference};
use steersman_controller::context::{Clock, ControllerContext};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::wire::{Group, Object};
use steersman_informer::{Index, Lister, View};
use steersman_kinds::device_allocation::{AllocatedDevice, AllocatedDevices, Reservations};
use steersman_kinds::device_taint::DeviceTaint;
use steersman_kinds::pod::{Disruption, DisruptionReason, Placement, Pod};
use steersman_kinds::pod_device_claims::{DeviceClaimStatus, DeviceClaims};
use steersman_kinds::resource_slice::TaintedDevices;

use super::eviction::{SliceOfPool, UsedClaim, eviction_time, taints_in};
use super::metrics::Metrics;
use super::plan::{Live, Observed, Step, plan};
use super::{AllocatedClaim, ClaimingPod, EvictedPod, NAME, TaintedSlice, pool};
use crate::pod_claim::Named;
use crate::unreadable;

/// The reason of the condition `DisruptionTarget`.
const REASON: &str = "DeletionByDeviceTaintManager";
const MESSAGE: &str = "Device Taint manager: deleting due to NoExecute taint";
/// The reason of the controller's events.
const EVENT: &str = "DeviceTaintManagerEviction";

/// The indexes of the caches.
#[derive(Clone, Copy)]
pub(super) struct Indexes {
    /// Claims by the driver and the pool of their devices.
    pub claims_by_pool: Index<AllocatedClaim>,
    /// Slices by driver and pool.
    pub slices_by_pool: Index<TaintedSlice>,
}

/// Evicts pods.
pub(super) struct EvictionController {
    pods: Lister<ClaimingPod>,
    claims: Lister<AllocatedClaim>,
    slices: Lister<TaintedSlice>,
    indexes: Indexes,
    client: Client<Pod>,
    recorder: Recorder,
    metrics: Metrics,
    clock: Clock,
    /// The pods whose eviction is planned, for the events about cancelled evictions. A sync of a pod that is gone removes it.
    planned: Mutex<HashMap<ObjectKey, Uid>>,
}

/// The result of a step.
#[derive(Debug)]
pub(super) enum Outcome {
    Done,
    Read(Live),
}

impl EvictionController {
    pub(super) fn new(
        context: &ControllerContext,
        (pods, claims, slices): (Lister<ClaimingPod>, Lister<AllocatedClaim>, Lister<TaintedSlice>),
        indexes: Indexes,
        metrics: Metrics,
    ) -> Self {
        Self {
            pods,
            claims,
            slices,
            indexes,
            client: Client::keeping::<EvictedPod>(context.client_for(NAME)),
            recorder: context.recorder(NAME),
            metrics,
            clock: context.clock.clone(),
            planned: Mutex::default(),
        }
    }

    fn used_claims(&self, pod: &View<ClaimingPod>) -> Result<Vec<UsedClaim>, SyncError> {
        let generated = pod.get::<DeviceClaimStatus>().generated();
        let mut used = Vec::new();
        for claim in pod.get::<DeviceClaims>().list() {
            let named = Named::of(claim, generated);
            let Some(name) = named.name() else { continue };
            let key = ObjectKey { namespace: pod.meta().key.namespace.clone(), name: name.as_arc().clone() };
            let Some(claim) = self.claims.get(&key).map_err(unreadable("ResourceClaim"))? else { continue };
            let results = claim.get::<AllocatedDevices>().allocation.devices.results.iter();
            let devices = results.map(|device| Ok((device.clone(), self.taints(device)?)));
            used.push(UsedClaim {
                is_generated: matches!(named, Named::Generated(_)),
                meta: claim.meta().clone(),
                reserved_for: claim.get::<Reservations>().reserved_for.clone(),
                devices: devices.collect::<Result<_, SyncError>>()?,
            });
        }
        Ok(used)
    }

    fn taints(&self, device: &AllocatedDevice) -> Result<Vec<DeviceTaint>, SyncError> {
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
        Ok(taints_in(&slices).to_vec())
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

    /// Marks and deletes a pod. Succeeds if the pod is gone, or another one has its name.
    async fn evict(
        &self,
        key: &ObjectKey,
        uid: &Uid,
        due: Time,
        mark: Option<Time>,
    ) -> Result<(), SyncError> {
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
            if !matches!(self.client.patch_status(key, &patch).await?, Changed::Now(_)) {
                return Ok(());
            }
        }
        if let Deleted::Now(..) = self.client.delete(key, &Delete::of(uid)).await? {
            let late = self.clock.timestamp().duration_since(due.into());
            tracing::info!(pod = %key, seconds = late.as_secs_f64(), "Evicted pod by deleting it");
            self.metrics.deleted(late.as_secs_f64());
        }
        Ok(())
    }
}

impl Controller for EvictionController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    fn term_begins(&self) {
        self.planned.lock().clear();
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let pod = self.pods.get(key).map_err(unreadable("Pod"))?;
        let Some(pod) = pod.filter(|pod| !pod.meta().is_deleting()) else {
            // It goes anyway: no event says so.
            self.planned.lock().remove(key);
            return Ok(Observation::Nothing);
        };
        let uid = pod.meta().uid.clone();
        let is_scheduled = !pod.get::<Placement>().node.is_empty();
        let eviction = if is_scheduled { eviction_time(&uid, &self.used_claims(&pod)?) } else { None };
        let is_planned = self.planned.lock().get(key) == Some(&uid);
        Ok(Observation::Ready(Observed { uid, eviction, is_planned, live: None }))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        // The rest of a toleration goes by fractions of a second.
        plan(observed, self.clock.timestamp())
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        match step {
            Step::Remember => _ = self.planned.lock().insert(key.clone(), observed.uid.clone()),
            Step::Forget => _ = self.planned.lock().remove(key),
            Step::Cancel => {
                self.planned.lock().remove(key);
                self.event(key, &observed.uid, "Cancelling deletion");
            }
            Step::Read => return self.read(key, &observed.uid).await.map(Outcome::Read),
            Step::Evict { uid, due, mark } => self.evict(key, uid, *due, *mark).await?,
        }
        Ok(Outcome::Done)
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        match (step, result) {
            (Step::Remember, StepResult::Done(_)) => observed.is_planned = true,
            (Step::Cancel | Step::Forget, StepResult::Done(_)) => observed.is_planned = false,
            (Step::Read, StepResult::Done(Outcome::Read(live))) => observed.live = Some(live),
            (Step::Evict { .. }, StepResult::Done(_)) => observed.live = Some(Live::Gone),
            _ => {}
        }
    }
}
