//! Scaling: users have changed `replicas`, or change it while the rollout is paused.

use std::cmp::Reverse;

use super::annotations::{self, DESIRED_REPLICAS};
use super::observed::{Observed, to_pods};
use super::owner::Deployment;
use super::plan::{Stage, Step};
use super::replica_set::ReplicaSet;

/// Whether users have changed `replicas` since the active ReplicaSets were scaled. Upstream's `isScalingEvent`.
///
/// With `Recreate`, several active ReplicaSets are left to the rollout, which scales all but the new one to zero. Upstream
/// finds nothing to scale in that case, and begins no rollout either.
pub(super) fn is_event(observed: &Observed) -> bool {
    let deployment = &observed.deployment;
    let active = || observed.owned().filter(|set| set.is_active());
    (deployment.is_rolling() || active().count() == 1)
        && active().filter_map(ReplicaSet::desired_replicas).any(|desired| desired != deployment.replicas)
}

/// Gives the ReplicaSets their share of the Deployment's size. Upstream's `scale`:
///
/// - a single active ReplicaSet, or the new one or the youngest if none is active, gets the whole size;
/// - if the new ReplicaSet has all pods that are wanted, all available, the old ones get none;
/// - otherwise, in a rolling update, all active ReplicaSets grow or shrink in proportion to their sizes.
///
/// Upstream leaves the annotations of a single active ReplicaSet as they are if its size fits already, so that the same
/// scaling event comes again for ever, and no rollout begins. Here they are written.
pub(super) fn steps(observed: &Observed) -> Vec<Step> {
    if observed.done.scaled.is_some() {
        return Vec::new();
    }
    let deployment = &observed.deployment;
    let mut active: Vec<&ReplicaSet> = observed.owned().filter(|set| set.is_active()).collect();
    let single = match &active[..] {
        [] => observed.new_set().or_else(|| observed.old_sets().next_back()),
        [single] => Some(*single),
        _ => None,
    };
    if let Some(single) = single {
        let is_stale = single.desired_replicas().is_some_and(|desired| desired != deployment.replicas);
        let needs_write = single.replicas != deployment.replicas || (single.is_active() && is_stale);
        return needs_write.then(|| single.scale(deployment.replicas, Stage::Event)).into_iter().collect();
    }
    if observed.new_set().is_some_and(|new| is_saturated(deployment, new)) {
        let active = observed.old_sets().filter(|set| set.is_active());
        return active.map(|set| set.scale(0, Stage::Event)).collect();
    }
    if !deployment.is_rolling() {
        return Vec::new();
    }
    let sizes = proportional(deployment, &mut active);
    let changed = |(set, size): &(&&ReplicaSet, i32)| {
        *size != set.replicas || annotations::size_is_outdated(deployment, set)
    };
    active.iter().zip(sizes).filter(changed).map(|(set, size)| set.scale(size, Stage::Event)).collect()
}

/// Whether the new ReplicaSet has all pods that are wanted, and all are available. Upstream's `IsSaturated`.
#[allow(clippy::cast_possible_truncation, reason = "Go converts in the same way")]
fn is_saturated(deployment: &Deployment, new: &ReplicaSet) -> bool {
    let desired = new.annotations.get(DESIRED_REPLICAS).and_then(|text| text.parse::<i64>().ok());
    desired.is_some_and(|desired| {
        [new.replicas, desired as i32, new.status.available] == [deployment.replicas; 3]
    })
}

/// Sorts the active ReplicaSets by size, the largest first, and returns the sizes that they shall have. Of equal ones the
/// younger comes first when pods are added, and the older when pods are removed. What rounding leaves over goes to the first.
///
/// Calculates with 64 bits: with 32 bits, as upstream, rollouts of more than 46,340 pods overflow.
fn proportional(deployment: &Deployment, active: &mut [&ReplicaSet]) -> Vec<i32> {
    let allowed = if deployment.replicas > 0 { i64::from(deployment.max_replicas()) } else { 0 };
    let to_add = allowed - active.iter().map(|set| i64::from(set.replicas)).sum::<i64>();
    if to_add == 0 {
        return active.iter().map(|set| set.replicas).collect();
    }
    active.sort_by(|a, b| {
        let by_age = if to_add > 0 { b.age_order(a) } else { a.age_order(b) };
        Reverse(a.replicas).cmp(&Reverse(b.replicas)).then(by_age)
    });
    let mut added = 0;
    let mut sizes = Vec::with_capacity(active.len());
    for set in active.iter() {
        let share = share(deployment, set, to_add - added);
        added += share;
        sizes.push(i64::from(set.replicas) + share);
    }
    if let Some(first) = sizes.first_mut() {
        *first += to_add - added;
    }
    sizes.into_iter().map(to_pods).collect()
}

/// The number of pods that a ReplicaSet gains or loses by its proportion, no more than `left`. Upstream's
/// `GetReplicaSetProportion`.
fn share(deployment: &Deployment, set: &ReplicaSet, left: i64) -> i64 {
    match left {
        0 => 0,
        1.. => fraction(deployment, set).min(left),
        _ => fraction(deployment, set).max(left),
    }
}

/// The size by which a ReplicaSet must change to keep its proportion of the greatest number of pods, before and after the
/// Deployment was scaled. Upstream's `getReplicaSetFraction`, rounded as there: halves away from zero.
#[allow(clippy::cast_possible_truncation, reason = "a size beyond 32 bits becomes the greatest one")]
pub(super) fn fraction(deployment: &Deployment, set: &ReplicaSet) -> i64 {
    let replicas = i64::from(set.replicas);
    if deployment.replicas == 0 {
        return -replicas;
    }
    let before = match set.max_replicas().filter(|max| *max != 0) {
        Some(before) => before,
        None => deployment.status.replicas,
    };
    if before == 0 {
        return 0;
    }
    let size = f64::from(set.replicas) * f64::from(deployment.max_replicas()) / f64::from(before);
    i64::from(size.round() as i32) - replicas
}
