//! The strategy `Recreate`: all old pods end before the first new one is created.

use super::observed::Observed;
use super::plan::{Rollout, Stage};
use super::replica_set::ReplicaSet;

/// What the rollout needs next.
pub(super) fn next(observed: &Observed) -> Rollout {
    let deployment = &observed.deployment;
    if observed.done.scaled.is_none() {
        let active = observed.old_sets().filter(|set| set.is_active());
        let scales: Vec<_> = active.map(|set| set.scale(0, Stage::Old)).collect();
        if !scales.is_empty() {
            return Rollout::Scale(scales);
        }
    }
    if observed.done.scaled == Some(Stage::Old) || observed.old_sets().any(has_pods) {
        return Rollout::Rest { clean_up: false };
    }
    let Some(new) = observed.new_set() else { return Rollout::Create };
    if observed.done.scaled.is_none() && new.replicas != deployment.replicas {
        return Rollout::Scale(vec![new.scale(deployment.replicas, Stage::New)]);
    }
    Rollout::Rest { clean_up: deployment.status.is_complete(deployment) }
}

/// Whether a ReplicaSet may have pods that have not ended. Pods that are being deleted still run.
///
/// Upstream goes by the number of replicas and the cached pods alone. Both may be older than the pods of a ReplicaSet that
/// was created and replaced in short order, so that this also waits for the status to describe the size zero.
fn has_pods(set: &ReplicaSet) -> bool {
    let status = &set.status;
    status.replicas > 0
        || set.runs_pods
        || status.terminating.is_some_and(|count| count > 0)
        || !set.is_synced()
}
