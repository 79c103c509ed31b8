//! Which pods to make, and which to do without.

use std::time::Duration;

use steersman_api::Time;

use super::observed::Observed;
use super::plan::{CreationReason, Step};
use super::pods::Pod;
use super::tally::Tally;
use super::wanted::Completions;

/// How many pods are made or deleted in one sync at the most, so that a large job keeps no small one waiting. Upstream:
/// `MaxPodCreateDeletePerSync`.
pub(super) const MOST_PODS: usize = 500;

/// What to do about the number of pods.
#[derive(Debug, PartialEq)]
pub(super) enum Work {
    /// Nothing.
    Nothing,
    /// Make these, by and by.
    Create(Vec<Step>),
    /// Delete these.
    Delete(Vec<Step>),
    /// Make pods, but not before so long.
    Wait(Duration),
}

/// Deletes all active pods. They keep their finalizers: each will count as what it comes to.
pub(super) fn end_all(tally: &Tally<'_>) -> Work {
    let doomed = tally.active.iter().take(MOST_PODS);
    deletions(doomed.map(|pod| Step::Delete(pod.reference())).collect())
}

/// Brings the number of active pods to what is wanted: either deletes or makes some, in one sync never both. Upstream's
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
    let mut doomed = too_many(tally, wanted.completions, active.saturating_sub(want));
    doomed.truncate(MOST_PODS);
    if !doomed.is_empty() || wanted.suspended {
        return deletions(doomed.into_iter().map(|pod| Step::Discard(pod.reference())).collect());
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
    let count = count.min(MOST_PODS);
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

/// The active pods to do without: of an indexed job all that have no index, one that is beyond the last, or one that a
/// better pod has too; and then those that have got least far, until there are `at_least` so many.
fn too_many<'a>(tally: &Tally<'a>, completions: Completions, at_least: usize) -> Vec<&'a Pod> {
    let mut pods = tally.active.clone();
    pods.sort_by_cached_key(|pod| pod.deletion_rank());
    let mut doomed = Vec::new();
    if let Completions::Indexes(_) = completions {
        // The last pod of an index, in order of deletion, is the one that stays.
        let mut seen = std::collections::HashSet::new();
        let stays = |pod: &&Pod| {
            super::tally::has_place(completions, pod) && pod.index.is_some_and(|index| seen.insert(index))
        };
        let (mut left, mut needless): (Vec<_>, Vec<_>) = pods.into_iter().rev().partition(stays);
        left.reverse();
        needless.reverse();
        (pods, doomed) = (left, needless);
    }
    let more = at_least.saturating_sub(doomed.len());
    doomed.extend(pods.into_iter().take(more));
    doomed
}
