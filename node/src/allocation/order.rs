//! Whose resize is looked at first. Pure.

use std::cmp::Reverse;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::conditions::Conditions;
use crate::resources::{CPU, MEMORY, QosClass, amount, pod_requests, qos_class};

/// The rank of a pod's resize, the least first: those that ask for no more, which always fit; then by priority; then
/// guaranteed pods; then those that wait the longest.
pub(super) fn rank(pod: &Pod, allocated: &Pod, conditions: &Conditions) -> impl Ord + use<> {
    let (wanted, had) = (pod_requests(pod), pod_requests(allocated));
    let increases = [MEMORY, CPU].into_iter().any(|name| amount(&wanted, name) > amount(&had, name));
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
    let since = conditions.pending.as_ref().and_then(|pending| pending.last_transition_time.as_ref());
    (
        increases,
        Reverse(priority),
        qos_class(pod) != QosClass::Guaranteed,
        since.map_or(Timestamp::MAX, |since| since.0),
    )
}
