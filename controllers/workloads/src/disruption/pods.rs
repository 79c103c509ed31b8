//! A budget's pods, as policy sees them.

use steersman_api::{Meta, Time};
use steersman_informer::View;
use steersman_kinds::pod::{Disruption, DisruptionReason, Phase, Readiness};

use super::GuardedPod;
use super::owners::Owner;

/// A pod that a budget selects.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    /// The pod's metadata, of which policy reads the name and whether the pod is being deleted.
    pub meta: Meta,
    /// Whether the pod is ready.
    pub ready: bool,
    /// The owner whose scale counts.
    pub owner: Owner,
}

/// Whether a change of a pod can change the status of a budget that selects the pod before and after.
pub(super) fn matters(old: &View<GuardedPod>, new: &View<GuardedPod>) -> bool {
    let relevant =
        |pod: &View<GuardedPod>| (pod.meta().is_deleting(), pod.get::<Readiness>().ready.is_true());
    let (was, is) = (old.meta(), new.meta());
    relevant(old) != relevant(new)
        || was.uid != is.uid
        || was.labels != is.labels
        || was.controller() != is.controller()
}

/// Since when the pod has the condition `DisruptionTarget` although nothing deletes the pod; `None` if that is not so, or in
/// order. The kubelet may take any time to end a pod that it has marked so, and the condition of a pod that has ended stays.
/// Upstream's `nonTerminatingPodHasStaleDisruptionCondition`.
pub(super) fn marked_since(pod: &View<GuardedPod>) -> Option<Time> {
    let target = &pod.get::<Disruption>().target;
    let by_kubelet = || {
        let reason = &pod.get::<DisruptionReason>().target.reason;
        reason.as_ref().is_some_and(|reason| *reason == "TerminationByKubelet")
    };
    let stays =
        target.is_true() && !pod.meta().is_deleting() && !pod.get::<Phase>().is_terminal() && !by_kubelet();
    // A condition that does not say since when it holds has held for long.
    stays.then(|| target.last_transition_time.unwrap_or_else(|| Time::from_seconds(0)))
}
