//! Decides which pods to create and which to delete.

use std::collections::HashSet;
use std::time::Duration;

use steersman_api::Time;

use super::observed::Observed;
use super::plan::{CreationReason, Step};
use super::pods::Pod;
use super::tally::Tally;
use super::wanted::{Completions, Replacement};

/// Maximum number of pods that one sync of a job that goes on creates or deletes, so that a large job does not delay small
/// ones. A job that is suspended, or has failed, loses all of its active pods in one sync. Upstream:
/// `MaxPodCreateDeletePerSync`.
pub(super) const MAX_PODS: usize = 500;

/// The steps that change the number of active pods.
#[derive(Debug, PartialEq)]
pub(super) enum Work {
    /// Leave the pods as they are.
    Nothing,
    /// Create pods, in batches of growing size.
    Create(Vec<Step>),
    /// Delete pods.
    Delete(Vec<Step>),
    /// Create pods only after this backoff.
    Wait(Duration),
    /// Create no pods: more could run, but no index needs one.
    NoIndex,
}

/// Deletes all active pods in one sync, since the status names the reason only once no pod is active. Their finalizers stay,
/// so that the job counts their end. Upstream: `deleteActivePods`.
pub(super) fn end_all(tally: &Tally<'_>) -> Work {
    deletions(tally.active.iter().map(|pod| Step::Delete(pod.reference())).collect())
}

/// Brings the number of active pods to the wanted number. One sync deletes or creates pods, never both. Upstream:
/// `manageJob`.
pub(super) fn manage(observed: &Observed, tally: &Tally<'_>, now: Time) -> Work {
    let wanted = &observed.job.wanted;
    let active = tally.active.len();
    let want = match wanted.completions {
        _ if wanted.suspended => 0,
        Completions::Any if tally.succeeded > 0 => active,
        Completions::Any => wanted.parallelism,
        Completions::Count(count) | Completions::Indexes(count) => {
            wanted.parallelism.min(count.saturating_sub(tally.succeeded))
        }
    };
    let mut surplus = surplus(tally, wanted.completions, active.saturating_sub(want));
    if !wanted.suspended {
        surplus.truncate(MAX_PODS);
    }
    if !surplus.is_empty() || wanted.suspended {
        return deletions(surplus.into_iter().map(|pod| Step::Discard(pod.reference())).collect());
    }
    let waited_for = match wanted.replacement {
        Replacement::TerminatingOrFailed => 0,
        Replacement::Failed => tally.terminating,
    };
    let count = want.saturating_sub(waited_for).saturating_sub(active);
    if count == 0 {
        return Work::Nothing;
    }
    // If each index has its own limit, it has its own backoff as well.
    let wait = if wanted.per_index.is_none() { tally.backoff.remaining(now) } else { Duration::ZERO };
    if wait > Duration::ZERO {
        return Work::Wait(wait);
    }
    create(observed, tally, count.min(MAX_PODS), now)
}

/// Creates that many pods; of an indexed job, pods of the first indexes that need one.
fn create(observed: &Observed, tally: &Tally<'_>, count: usize, now: Time) -> Work {
    let wanted = &observed.job.wanted;
    let reason = reason(wanted.replacement, tally);
    let Completions::Indexes(completions) = wanted.completions else {
        return Work::Create(vec![Step::Create { index: None, earlier: None, reason }; count]);
    };
    let waited_for = observed
        .owned()
        .filter(|pod| wanted.replacement == Replacement::Failed && pod.is_terminating())
        .chain(tally.active.iter().copied())
        .filter_map(|pod| pod.index);
    let taken = tally.indexes.union(&tally.failed_indexes).with(waited_for);
    let mut indexes = taken.missing(count, completions);
    let wait = indexes.iter().map(|index| tally.predecessors.wait(*index, now)).min();
    // An index that waits for its backoff keeps its place: like upstream, no other index is started instead.
    indexes.retain(|index| tally.predecessors.wait(*index, now).is_zero());
    let steps = indexes.into_iter().map(|index| Step::Create {
        index: Some(index),
        earlier: wanted.per_index.map(|_| tally.predecessors.failures_before(wanted, index)),
        reason,
    });
    let steps: Vec<Step> = steps.collect();
    match wait {
        _ if !steps.is_empty() => Work::Create(steps),
        Some(wait) => Work::Wait(wait),
        None => Work::NoIndex,
    }
}

fn reason(replacement: Replacement, tally: &Tally<'_>) -> CreationReason {
    if replacement == Replacement::Failed && tally.failed > 0 {
        CreationReason::RecreateFailed
    } else if tally.failed > 0 || tally.terminating > 0 {
        CreationReason::RecreateTerminatingOrFailed
    } else {
        CreationReason::New
    }
}

fn deletions(steps: Vec<Step>) -> Work {
    if steps.is_empty() { Work::Nothing } else { Work::Delete(steps) }
}

/// The active pods to delete. Of an indexed job, these are first all pods without index, with an index that is too high, or
/// with the index of a pod that stays. Then follow the pods with the least progress, until there are at least `at_least`.
fn surplus<'a>(tally: &Tally<'a>, completions: Completions, at_least: usize) -> Vec<&'a Pod> {
    // Most syncs end here, without sorting the pods.
    if at_least == 0 && !(completions.are_indexed() && has_misplaced(&tally.active, completions)) {
        return Vec::new();
    }
    let mut pods = tally.active.clone();
    pods.sort_by_cached_key(|pod| pod.deletion_rank());
    let mut surplus = Vec::new();
    if let Completions::Indexes(_) = completions {
        // Of several pods with an index, the one that comes last in the order of deletion stays.
        let mut seen = HashSet::new();
        let stays = |pod: &&Pod| {
            super::tally::has_place(completions, pod) && pod.index.is_some_and(|index| seen.insert(index))
        };
        let (mut kept, mut removed): (Vec<_>, Vec<_>) = pods.into_iter().rev().partition(stays);
        kept.reverse();
        removed.reverse();
        (pods, surplus) = (kept, removed);
    }
    let more = at_least.saturating_sub(surplus.len());
    surplus.extend(pods.into_iter().take(more));
    surplus
}

/// Whether a pod has no valid index, or shares its index with another one.
fn has_misplaced(pods: &[&Pod], completions: Completions) -> bool {
    let mut seen = HashSet::with_capacity(pods.len());
    let stays = |pod: &Pod| {
        super::tally::has_place(completions, pod) && pod.index.is_some_and(|index| seen.insert(index))
    };
    !pods.iter().copied().all(stays)
}
