//! Decides which pods to create and which to delete.

use std::time::Duration;

use steersman_api::Time;

use super::observed::Observed;
use super::plan::{CreationReason, Step};
use super::pods::Pod;
use super::tally::Tally;
use super::wanted::Completions;

/// Maximum number of pods that one sync creates or deletes, so that a large job does not delay small ones. Upstream:
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
}

/// Deletes all active pods. Their finalizers stay, so that the job counts their end.
pub(super) fn end_all(tally: &Tally<'_>) -> Work {
    let pods = tally.active.iter().take(MAX_PODS);
    deletions(pods.map(|pod| Step::Delete(pod.reference())).collect())
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
    surplus.truncate(MAX_PODS);
    if !surplus.is_empty() || wanted.suspended {
        return deletions(surplus.into_iter().map(|pod| Step::Discard(pod.reference())).collect());
    }
    let count = want.saturating_sub(active);
    if count == 0 {
        return Work::Nothing;
    }
    let wait = tally.backoff.remaining(now);
    if wait > Duration::ZERO {
        return Work::Wait(wait);
    }
    let reason = if tally.failed > 0 || tally.terminating > 0 {
        CreationReason::RecreateTerminatingOrFailed
    } else {
        CreationReason::New
    };
    let count = count.min(MAX_PODS);
    let create = |index| Step::Create { index, reason };
    let steps: Vec<Step> = match wanted.completions {
        Completions::Indexes(completions) => {
            let taken = tally.indexes.with(tally.active.iter().filter_map(|pod| pod.index));
            taken.missing(count, completions).into_iter().map(|index| create(Some(index))).collect()
        }
        Completions::Any | Completions::Count(_) => vec![create(None); count],
    };
    if steps.is_empty() { Work::Nothing } else { Work::Create(steps) }
}

fn deletions(steps: Vec<Step>) -> Work {
    if steps.is_empty() { Work::Nothing } else { Work::Delete(steps) }
}

/// The active pods to delete. Of an indexed job, these are first all pods without index, with an index that is too high, or
/// with the index of a pod that stays. Then follow the pods with the least progress, until there are at least `at_least`.
fn surplus<'a>(tally: &Tally<'a>, completions: Completions, at_least: usize) -> Vec<&'a Pod> {
    let mut pods = tally.active.clone();
    pods.sort_by_cached_key(|pod| pod.deletion_rank());
    let mut surplus = Vec::new();
    if let Completions::Indexes(_) = completions {
        // Of several pods with an index, the one that comes last in the order of deletion stays.
        let mut seen = std::collections::HashSet::new();
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
