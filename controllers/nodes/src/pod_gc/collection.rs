//! A pod that the collector deletes, and the patch of its status.

use serde_json::{Value, json};
use steersman_api::{ObjectKey, Time, Uid};
use steersman_informer::View;

use super::CollectedPod;
use steersman_kinds::pod::{Disruption, Phase};

/// Why a pod is garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The pod has terminated, and more pods have than the threshold allows.
    Terminated,
    /// The pod is terminating on a node that is out of service.
    OutOfService,
    /// The pod's node does not exist.
    Orphaned,
    /// The pod is terminating and was never scheduled.
    Unscheduled,
}

impl Reason {
    /// The value of the metrics' label `reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }
}

/// A pod to delete with a grace period of zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Collection {
    /// The pod's namespace and name.
    pub key: ObjectKey,
    /// The pod's uid, the precondition of the patch and of the deletion.
    pub uid: Uid,
    /// Why the pod is garbage.
    pub reason: Reason,
    /// The strategic merge patch that sets the pod's phase to `Failed` before the deletion. `None` if the pod has ended. No
    /// kubelet will report the end of the others, and their owners count ended pods.
    pub failure: Option<Value>,
}

impl Collection {
    /// The collection of `pod`. `None` if the pod has ended and is already being deleted without grace, so that only a
    /// finalizer keeps it.
    pub(super) fn of(pod: &View<CollectedPod>, reason: Reason, now: Time) -> Option<Self> {
        let meta = pod.meta();
        let has_ended = pod.get::<Phase>().is_terminal();
        if has_ended && meta.is_deleting() && meta.deletion_grace() == Some(0) {
            return None;
        }
        let failure = (!has_ended).then(|| failure(pod, reason, now));
        Some(Self { key: meta.key.clone(), uid: meta.uid.clone(), reason, failure })
    }
}

/// The patch has only the conditions that change. So the API server puts a new condition before the others. Upstream also
/// sends the types of the others, and the new condition comes last. The order of conditions has no meaning.
fn failure(pod: &View<CollectedPod>, reason: Reason, now: Time) -> Value {
    let mut status = json!({"phase": "Failed"});
    if reason == Reason::Orphaned {
        let target = &pod.get::<Disruption>().target;
        let since = target.last_transition_time.filter(|_| target.is_true()).unwrap_or(now);
        status["conditions"] = json!([{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastProbeTime": null,
            "lastTransitionTime": since,
        }]);
    }
    // Zero if the API server does not count generations of pods.
    let generation = pod.meta().generation;
    if generation != 0 {
        status["observedGeneration"] = generation.into();
        if let Some(condition) = status.pointer_mut("/conditions/0") {
            condition["observedGeneration"] = generation.into();
        }
    }
    json!({"metadata": {"uid": pod.meta().uid}, "status": status})
}
