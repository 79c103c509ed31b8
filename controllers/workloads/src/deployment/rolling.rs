//! Rolling updates: new pods replace old ones a few at a time.
//!
//! As upstream's `rolling.go`, with two bounds that are stricter while the controller of ReplicaSets is behind. Of a
//! ReplicaSet that was scaled down, no more pods count as available than it shall keep; and the new ReplicaSet grows only
//! once the old ones have deleted what they were scaled down by. So no step takes more available pods, or adds more pods,
//! than the strategy allows.

use super::observed::{Observed, to_pods};
use super::plan::{Rollout, Stage, Step};
use super::replica_set::ReplicaSet;

/// What the rollout needs next.
pub(super) fn next(observed: &Observed) -> Rollout {
    let Some(new) = observed.new_set() else { return Rollout::Create };
    let old_steps = |stage| match stage {
        None => {
            let surplus = surplus(observed, new);
            if surplus == 0 {
                return Vec::new();
            }
            let unhealthy = unhealthy(observed, surplus);
            if unhealthy.is_empty() { available(observed) } else { unhealthy }
        }
        Some(Stage::Unhealthy) => available(observed),
        Some(_) => Vec::new(),
    };
    let scaled = observed.done.scaled;
    let scales = match scale_new(observed, new).filter(|_| scaled.is_none()) {
        Some(step) => vec![step],
        None => old_steps(scaled),
    };
    if scales.is_empty() {
        let clean_up = scaled.is_none() && observed.deployment.status.is_complete(&observed.deployment);
        return Rollout::Rest { clean_up };
    }
    Rollout::Scale(scales)
}

/// The number of pods that the new ReplicaSet may want, if it wants `replicas` now. Upstream's `NewRSNewReplicas`.
pub(super) fn size_of_new(observed: &Observed, replicas: i32) -> i32 {
    let deployment = &observed.deployment;
    // The status of a ReplicaSet that has not been synced since it was scaled does not count all of its pods.
    if !observed.old_sets().all(ReplicaSet::is_synced) {
        return replicas;
    }
    let room = to_pods(i64::from(deployment.max_replicas()) - observed.total(ReplicaSet::present));
    replicas + room.min(deployment.replicas - replicas).max(0)
}

fn scale_new(observed: &Observed, new: &ReplicaSet) -> Option<Step> {
    let wanted = observed.deployment.replicas;
    let to = if new.replicas > wanted { wanted } else { size_of_new(observed, new.replicas) };
    (to != new.replicas).then(|| new.scale(to, Stage::New))
}

/// How many pods there are beyond those that must be available, if the new pods that are not available never become so.
fn surplus(observed: &Observed, new: &ReplicaSet) -> i32 {
    if observed.old_sets().all(|set| set.replicas == 0) {
        return 0;
    }
    let new_unavailable = new.replicas - new.available();
    let needed = i64::from(observed.deployment.min_available()) + i64::from(new_unavailable);
    to_pods(observed.total(|set| set.replicas) - needed)
}

/// Removes up to `limit` old pods that are not available, from the oldest ReplicaSets first: those never help, and hold the
/// rollout up. A ReplicaSet deletes its pods that are not ready first.
fn unhealthy(observed: &Observed, limit: i32) -> Vec<Step> {
    shrink(observed, limit, Stage::Unhealthy, |set| set.replicas - set.available())
}

/// Removes as many old pods as are available beyond the least number, from the oldest ReplicaSets first.
fn available(observed: &Observed) -> Vec<Step> {
    let surplus = observed.total(ReplicaSet::available) - i64::from(observed.deployment.min_available());
    shrink(observed, to_pods(surplus), Stage::Old, |set| set.replicas)
}

fn shrink(observed: &Observed, limit: i32, stage: Stage, by: fn(&ReplicaSet) -> i32) -> Vec<Step> {
    let mut left = limit;
    let mut steps = Vec::new();
    for set in observed.old_sets().filter(|set| set.is_active()) {
        let count = by(set).min(left);
        if count > 0 {
            left -= count;
            steps.push(set.scale(set.replicas - count, stage));
        }
    }
    steps
}
