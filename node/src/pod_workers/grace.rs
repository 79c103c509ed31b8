//! How long a pod that terminates has.

use k8s_openapi::api::core::v1::Pod;

/// The seconds of grace of a pod that is told to terminate, once more perhaps: at least 1, and never more than `before`.
///
/// What the API server wrote into the pod comes before what the kill says, and only without either the pod's spec counts.
pub(super) fn effective(before: Option<i64>, pod: Option<&Pod>, kill: Option<i64>) -> i64 {
    let deletion = pod.and_then(|pod| pod.metadata.deletion_grace_period_seconds);
    let wanted = pod.and_then(|pod| pod.spec.as_ref()?.termination_grace_period_seconds);
    let told = [before, deletion, kill].into_iter().flatten().min();
    told.or(wanted).unwrap_or_default().max(1)
}
