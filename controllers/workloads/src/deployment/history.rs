//! The history of a Deployment: old ReplicaSets that are kept so that users can roll back to them.

use super::observed::Observed;
use super::plan::Step;
use super::replica_set::ReplicaSet;

/// Deletes the old ReplicaSets beyond the history limit, the lowest revisions first. Those that have pods, or whose status
/// is not up to date, stay. Upstream's `cleanupDeployment`.
pub(super) fn steps(observed: &Observed) -> Vec<Step> {
    let Some(limit) = observed.deployment.history_limit else { return Vec::new() };
    let mut old: Vec<&ReplicaSet> = observed.old_sets().filter(|set| !set.deleting).collect();
    let Some(surplus) = old.len().checked_sub(usize::try_from(limit).unwrap_or(0)) else { return Vec::new() };
    // Revisions that are no numbers come first. The sort is stable, so that equal ones stay in the order of age.
    old.sort_by_key(|set| set.revision());
    let is_unused = |set: &&ReplicaSet| set.status.replicas == 0 && set.replicas == 0 && set.is_synced();
    old[..surplus].iter().copied().filter(is_unused).map(|set| Step::Delete(set.reference.clone())).collect()
}
