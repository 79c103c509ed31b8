//! Counts a job's pods.

use std::collections::HashSet;

use steersman_api::Uid;

use super::backoff::Backoff;
use super::indexes::Indexes;
use super::observed::Observed;
use super::pods::{Phase, Pod};
use super::wanted::Completions;

/// The counts of a job's pods, added to those in its status.
pub(super) struct Tally<'a> {
    /// Pods that are neither finished nor being deleted.
    pub(super) active: Vec<&'a Pod>,
    /// Number of active pods that are ready.
    pub(super) ready: usize,
    /// Number of pods that are being deleted and have not finished.
    pub(super) terminating: usize,
    /// Number of pods (of an indexed job: indexes) that have ever succeeded.
    pub(super) succeeded: usize,
    /// Number of pods that have ever failed.
    pub(super) failed: usize,
    /// The completed indexes of the status.
    pub(super) known_indexes: Indexes,
    /// `known_indexes`, and the indexes of pods that have succeeded since.
    pub(super) indexes: Indexes,
    /// The backoff after the failures and successes that the status does not count yet.
    pub(super) backoff: Backoff,
}

impl<'a> Tally<'a> {
    pub(super) fn of(observed: &'a Observed) -> Self {
        let (status, completions) = (&observed.job.status, observed.job.wanted.completions);
        let active: Vec<&Pod> = observed.owned().filter(|pod| pod.is_active()).collect();
        let (uncounted_succeeded, uncounted_failed) = status.uncounted();
        let uncounted: HashSet<&Uid> = uncounted_succeeded.iter().chain(uncounted_failed).collect();
        let fresh = |pod: &&Pod| pod.tracked && !uncounted.contains(&pod.uid) && has_place(completions, pod);
        let succeeded: Vec<_> =
            observed.owned().filter(fresh).filter(|pod| pod.phase == Phase::Succeeded).collect();
        let failed: Vec<_> = observed.owned().filter(fresh).filter(|pod| pod.has_failed()).collect();
        let (known_indexes, indexes) = match completions {
            Completions::Indexes(count) => {
                let known = Indexes::parse(&status.completed_indexes, count);
                let new = succeeded.iter().filter_map(|pod| pod.index);
                let all = known.with(new);
                (known, all)
            }
            Completions::Any | Completions::Count(_) => Default::default(),
        };
        let times = |pods: &[&Pod]| pods.iter().map(|pod| pod.finished_at).collect::<Vec<_>>();
        Self {
            ready: active.iter().filter(|pod| pod.ready.is_some()).count(),
            active,
            terminating: observed.owned().filter(|pod| pod.is_terminating()).count(),
            succeeded: match completions {
                Completions::Indexes(_) => indexes.total(),
                _ => super::size(status.succeeded) + uncounted_succeeded.len() + succeeded.len(),
            },
            failed: super::size(status.failed) + uncounted_failed.len() + failed.len(),
            known_indexes,
            indexes,
            backoff: observed.backoff.after(&times(&succeeded), &times(&failed)),
        }
    }
}

/// Whether the job counts the pod's end. An indexed job counts only pods with a valid index.
pub(super) fn has_place(completions: Completions, pod: &Pod) -> bool {
    match completions {
        Completions::Any | Completions::Count(_) => true,
        Completions::Indexes(count) => pod.index.is_some_and(|index| (index as usize) < count),
    }
}
