//! Counts a job's pods.

use std::collections::HashSet;

use steersman_api::Uid;

use super::backoff::Backoff;
use super::failure_policy::FailureAction;
use super::indexes::Indexes;
use super::observed::Observed;
use super::per_index::{Predecessors, fails_index};
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
    /// Number of pods that have ever failed, without those that the pod failure policy ignores.
    pub(super) failed: usize,
    /// The completed indexes of the status.
    pub(super) known_indexes: Indexes,
    /// `known_indexes`, and the indexes of pods that have succeeded since.
    pub(super) indexes: Indexes,
    /// The failed indexes of the status, and the indexes that have failed since. No other than a job with
    /// `backoffLimitPerIndex` has any.
    pub(super) failed_indexes: Indexes,
    /// The failed pods that wait for their successors. No other than a job with `backoffLimitPerIndex` has any.
    pub(super) predecessors: Predecessors<'a>,
    /// The backoff after the failures and successes that the status does not count yet.
    pub(super) backoff: Backoff,
}

impl<'a> Tally<'a> {
    pub(super) fn of(observed: &'a Observed) -> Self {
        let (status, wanted) = (&observed.job.status, &observed.job.wanted);
        let completions = wanted.completions;
        let active: Vec<&Pod> = observed.owned().filter(|pod| pod.is_active()).collect();
        let (uncounted_succeeded, uncounted_failed) = status.uncounted();
        let uncounted: HashSet<&Uid> = uncounted_succeeded.iter().chain(uncounted_failed).collect();
        let fresh = |pod: &&Pod| pod.tracked && !uncounted.contains(&pod.uid) && has_place(completions, pod);
        let (mut succeeded, mut failed) = (Vec::new(), Vec::new());
        for pod in observed.owned().filter(fresh) {
            match pod.phase {
                Phase::Succeeded => succeeded.push(pod),
                _ if pod.has_failed(wanted.replacement) => failed.push(pod),
                _ => {}
            }
        }
        let mut tally = Self {
            ready: active.iter().filter(|pod| pod.ready.is_some()).count(),
            active,
            terminating: observed.owned().filter(|pod| pod.is_terminating()).count(),
            succeeded: super::size(status.succeeded) + uncounted_succeeded.len() + succeeded.len(),
            failed: super::size(status.failed)
                + uncounted_failed.len()
                + failed.iter().filter(|pod| wanted.action_on(pod) != Some(FailureAction::Ignore)).count(),
            known_indexes: Indexes::default(),
            indexes: Indexes::default(),
            failed_indexes: Indexes::default(),
            predecessors: Predecessors::default(),
            backoff: observed.backoff,
        };
        // The status that this sync has written counts them.
        if !observed.done.entered {
            let times = |pods: &[&Pod]| pods.iter().map(|pod| pod.finished_at).collect::<Vec<_>>();
            tally.backoff = observed.backoff.after(&times(&succeeded), &times(&failed));
        }
        if let Completions::Indexes(count) = completions {
            tally.count_indexes(observed, count, &succeeded);
        }
        tally
    }

    /// Counts the indexes of a job with that many. An index never both succeeds and fails, which the API server refuses: what
    /// comes first counts, should several pods of the index have run.
    fn count_indexes(&mut self, observed: &'a Observed, count: usize, succeeded: &[&Pod]) {
        let (status, wanted) = (&observed.job.status, &observed.job.wanted);
        let failed_before = match (wanted.per_index, &status.failed_indexes) {
            (Some(_), Some(text)) => Indexes::parse(text, count),
            _ => Indexes::default(),
        };
        let new = succeeded.iter().filter_map(|pod| pod.index).filter(|index| !failed_before.has(*index));
        self.known_indexes = Indexes::parse(&status.completed_indexes, count);
        self.indexes = self.known_indexes.with(new);
        self.succeeded = self.indexes.total();
        let Some(limits) = wanted.per_index else { return };
        let failing = observed.owned().filter(|pod| {
            pod.tracked
                && has_place(wanted.completions, pod)
                && pod.has_failed(wanted.replacement)
                && fails_index(wanted, limits, pod)
        });
        let new = failing.filter_map(|pod| pod.index).filter(|index| !self.indexes.has(*index));
        self.failed_indexes = failed_before.with(new);
        let active = self.active.iter().filter_map(|pod| pod.index);
        let settled = self.indexes.union(&self.failed_indexes).with(active);
        self.predecessors = Predecessors::of(wanted, observed.owned(), &settled);
    }
}

/// Whether the job counts the pod's end. An indexed job counts only pods with a valid index.
pub(super) fn has_place(completions: Completions, pod: &Pod) -> bool {
    match completions {
        Completions::Any | Completions::Count(_) => true,
        Completions::Indexes(count) => pod.index.is_some_and(|index| (index as usize) < count),
    }
}
