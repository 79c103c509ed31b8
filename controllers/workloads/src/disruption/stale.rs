//! Takes the condition `DisruptionTarget` back from pods that were to be disrupted, and were not.

use std::time::Duration;

use serde_json::json;
use steersman_api::{Meta, ObjectKey, Time};
use steersman_controller::client::{Client, Patch};
use steersman_controller::context::Clock;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Informer, Lister};
use steersman_kinds::pod::Pod;

use super::GuardedPod;
use super::pods::marked_since;

/// How long a pod may have the condition without being deleted. Upstream: `stalePodDisruptionTimeout`.
const STALE_AFTER: Duration = Duration::from_secs(120);

/// Enqueues each pod with the condition for when it will be stale.
pub(super) fn map(pods: &Informer<GuardedPod>, queue: &WorkQueue<ObjectKey>, clock: &Clock) {
    let (queue, clock) = (queue.clone(), clock.clone());
    pods.map(move |change| {
        if let Some(since) = change.new().and_then(marked_since) {
            queue.add_after(change.key().clone(), stale_in(since, clock.now()));
        }
    });
}

/// The time until a condition that holds since then is stale; zero if it is.
fn stale_in(since: Time, now: Time) -> Duration {
    STALE_AFTER.saturating_sub(now.since(since))
}

/// Syncs pods with the condition.
pub(super) struct StaleMarks {
    pods: Lister<GuardedPod>,
    client: Client<Pod>,
}

impl StaleMarks {
    /// Changes pods through `client`.
    pub(super) fn new(pods: Lister<GuardedPod>, client: Client<Pod>) -> Self {
        Self { pods, client }
    }
}

/// A pod with the condition.
#[derive(Clone, Debug)]
pub(super) struct Marked {
    /// The pod's metadata.
    pub meta: Meta,
    /// Since when the pod has the condition. `None` once the condition is taken back.
    pub since: Option<Time>,
}

/// Takes the condition back: sets its status to `False`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TakeBack {
    /// The time of the change.
    pub now: Time,
}

/// Decides whether the condition is stale, or when it will be.
pub(super) fn plan(marked: &Marked, now: Time) -> Plan<TakeBack> {
    match marked.since.map(|since| stale_in(since, now)) {
        None => Plan::done(),
        Some(Duration::ZERO) => Plan::step(TakeBack { now }),
        wait => Plan::Done { requeue_after: wait },
    }
}

/// The patch that takes the condition back from the pod in this version. It leaves the other conditions alone.
fn patch(pod: &Meta, now: Time) -> Patch {
    let mut condition = json!({
        "type": "DisruptionTarget", "status": "False", "lastTransitionTime": now,
        "lastProbeTime": null, "reason": null, "message": null,
    });
    // Zero where the API server does not count generations.
    if pod.generation != 0 {
        condition["observedGeneration"] = pod.generation.into();
    }
    Patch::Strategic(json!({
        "metadata": {"uid": pod.uid, "resourceVersion": pod.resource_version},
        "status": {"conditions": [condition]},
    }))
}

impl Controller for StaleMarks {
    type Key = ObjectKey;
    type Observed = Marked;
    type Step = TakeBack;
    type Outcome = ();

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Marked>, SyncError> {
        let pod = self.pods.get(key).map_err(|error| SyncError::Unreadable(format!("Pod {error}")))?;
        let marked = pod.and_then(|pod| {
            let since = marked_since(&pod);
            since.is_some().then(|| Marked { meta: pod.meta().clone(), since })
        });
        Ok(marked.map_or(Observation::Nothing, Observation::Ready))
    }

    fn plan(&self, observed: &Marked, now: Time) -> Plan<TakeBack> {
        plan(observed, now)
    }

    async fn act(&self, key: &ObjectKey, observed: &Marked, step: &TakeBack) -> Result<(), SyncError> {
        let changed = self.client.patch_status(key, &patch(&observed.meta, step.now)).await?;
        // After a conflict the key comes again with what the cache shows then.
        changed.or_conflict(|| format!("taking the condition DisruptionTarget back from pod {key}"))?;
        Ok(())
    }

    fn absorb(&self, observed: &mut Marked, _step: TakeBack, result: StepResult<()>) {
        if let StepResult::Done(()) = result {
            observed.since = None;
        }
    }
}
