//! What goes to the API server: the node's status, with what others wrote. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::conditions::{
    self, CONTAINERS_READY, DISRUPTION_TARGET, READY, condition, is_owned, is_shared, is_terminal,
    replace_or_append,
};

/// Whether a pod's containers may still run: its end is not told before they don't.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Containers {
    /// Some may.
    MayRun,
    /// None does, nor will.
    Gone,
}

/// Sets when a condition of `status` last changed: not since `old`, or now.
pub(super) fn set_transition_time(status: &mut PodStatus, old: &PodStatus, kind: &str, now: Timestamp) {
    let before = condition(old, kind).map(|old| (old.status.clone(), old.last_transition_time.clone()));
    for condition in status.conditions.iter_mut().flatten().filter(|condition| condition.type_ == kind) {
        condition.last_transition_time = match &before {
            Some((status, time)) if *status == condition.status => time.clone(),
            _ => Some(Time(now)),
        };
    }
}

/// The status to be written: `old` is the API server's, `new` the node's. Conditions of others stay as they are; the end
/// of a pod whose containers may run yet is held back; a pod that ended is not ready.
pub(super) fn merge(
    pod: &Pod,
    old: &PodStatus,
    mut new: PodStatus,
    containers: Containers,
    now: Timestamp,
) -> PodStatus {
    let ends = !is_terminal(old.phase.as_deref()) && is_terminal(new.phase.as_deref());
    let foreign = old.conditions.iter().flatten().filter(|condition| !is_owned(&condition.type_));
    let mut list: Vec<_> = foreign.cloned().collect();
    if ends && containers == Containers::Gone {
        // It was set long before; it holds from when it is told.
        set_transition_time(&mut new, old, DISRUPTION_TARGET, now);
    }
    for ours in new.conditions.take().into_iter().flatten() {
        if is_owned(&ours.type_) {
            list.push(ours);
        } else if is_shared(&ours.type_) && ends && containers == Containers::Gone {
            replace_or_append(&mut list, ours);
        }
    }
    new.conditions = Some(list);
    new.resource_claim_statuses.clone_from(&old.resource_claim_statuses);
    new.extended_resource_claim_status.clone_from(&old.extended_resource_claim_status);
    new.node_allocatable_resource_claim_statuses.clone_from(&old.node_allocatable_resource_claim_statuses);
    if ends && containers == Containers::MayRun {
        new.phase.clone_from(&old.phase);
        new.reason.clone_from(&old.reason);
        new.message.clone_from(&old.message);
    }
    let phase = new.phase.clone();
    let ready = [READY, CONTAINERS_READY].iter().any(|kind| conditions::is_true(&new, kind));
    if is_terminal(phase.as_deref()) && ready {
        for kind in [CONTAINERS_READY, READY] {
            let mut at_the_end = conditions::at_the_end(pod, kind, phase.as_deref());
            at_the_end.last_transition_time = match condition(&new, kind) {
                Some(before) if before.status == at_the_end.status => before.last_transition_time.clone(),
                _ => Some(Time(now)),
            };
            replace_or_append(new.conditions.get_or_insert_default(), at_the_end);
        }
    }
    new
}
