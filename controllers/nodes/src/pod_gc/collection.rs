//! A pod to be collected, and what is done to it.

use serde_json::{Value, json};
use steersman_api::{ObjectKey, Time, Uid};
use steersman_informer::View;

use super::CollectedPod;
use steersman_kinds::pod::{Disruption, Phase};

/// Why a pod is garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It has ended, and too many have.
    Terminated,
    /// It is to end, on a node that is out of service.
    OutOfService,
    /// Its node is gone.
    Orphaned,
    /// It is to end, and never began.
    Unscheduled,
}

impl Reason {
    /// The value of the metrics' label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }
}

/// A pod to be deleted without grace.
#[derive(Clone, Debug, PartialEq)]
pub struct Collection {
    /// Its name.
    pub key: ObjectKey,
    /// Which pod of that name.
    pub uid: Uid,
    /// Why.
    pub reason: Reason,
    /// A strategic merge patch of its status that comes first, for a pod that has not ended: no kubelet will say that it
    /// has, and whoever counts its end must see one.
    pub failure: Option<Value>,
}

impl Collection {
    /// Of that pod; `None` if all that can be done to it has been: something else holds it.
    pub(super) fn of(pod: &View<CollectedPod>, reason: Reason, now: Time) -> Option<Self> {
        let meta = pod.meta();
        let has_ended = pod.get::<Phase>().is_terminal();
        if has_ended && meta.is_deleting() && meta.deletion_grace == Some(0) {
            return None;
        }
        let failure = (!has_ended).then(|| failure(pod, reason, now));
        Some(Self { key: meta.key.clone(), uid: meta.uid.clone(), reason, failure })
    }
}

/// Only what changes. So the API server puts a new condition before the others, where upstream, which sends the types of all,
/// has it behind them; the order of conditions means nothing.
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
    // Zero where the API server does not count generations.
    let generation = pod.meta().generation;
    if generation != 0 {
        status["observedGeneration"] = generation.into();
        if let Some(condition) = status.pointer_mut("/conditions/0") {
            condition["observedGeneration"] = generation.into();
        }
    }
    json!({"metadata": {"uid": pod.meta().uid}, "status": status})
}
