//! Terminated pods beyond the threshold.

use steersman_informer::View;

use super::CollectedPod;
use steersman_kinds::pod::Phase;

/// The terminated pods beyond the threshold: evicted pods first, so that other pods, which their owners may still count,
/// live longer; then the oldest.
pub(super) fn terminated(pods: &[View<CollectedPod>], threshold: usize) -> Vec<&View<CollectedPod>> {
    let mut terminated: Vec<_> = pods.iter().filter(|pod| has_ended(pod)).collect();
    let excess = terminated.len().saturating_sub(threshold);
    if excess > 0 {
        terminated.sort_by(|a, b| order(a).cmp(&order(b)));
    }
    terminated.truncate(excess);
    terminated
}

fn order<'a>(pod: &'a View<CollectedPod>) -> impl Ord + use<'a> {
    let phase = pod.get::<Phase>();
    let evicted = phase.phase == "Failed" && phase.reason == "Evicted";
    (!evicted, pod.meta().created, &pod.meta().key.name)
}

/// Whether the pod has ended. As in upstream, an unknown phase counts as an end.
fn has_ended(pod: &View<CollectedPod>) -> bool {
    !["Pending", "Running", "Unknown"].contains(&&*pod.get::<Phase>().phase)
}
