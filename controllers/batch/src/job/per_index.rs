//! Jobs whose indexes fail independently of each other: `backoffLimitPerIndex`.
//!
//! Each pod has the number of failures of its index before it in annotations. So the last failed pod of an index keeps its
//! finalizer, and thereby exists, until its successor does: see [`Predecessors`].

use std::collections::HashMap;
use std::time::Duration;

use steersman_api::Time;

use super::backoff::Backoff;
use super::failure_policy::FailureAction;
use super::indexes::Indexes;
use super::pods::Pod;
use super::tally::has_place;
use super::wanted::{PerIndex, Wanted};
use steersman_kinds::index_failures::IndexFailures;

/// The last failed pod of each index that waits for its next pod. Upstream: `podsWithDelayedDeletionPerIndex`.
#[derive(Debug, Default)]
pub(super) struct Predecessors<'a>(HashMap<u32, &'a Pod>);

/// Whether the failure of this pod, which has failed, makes its index fail.
pub(super) fn fails_index(wanted: &Wanted, limits: PerIndex, pod: &Pod) -> bool {
    match wanted.action_on(pod) {
        Some(FailureAction::FailIndex) => true,
        Some(FailureAction::Ignore) => false,
        _ => pod.earlier.counted >= limits.backoff_limit,
    }
}

/// The order of the failed pods of one index. A successor counts more failures than the pod that it replaced, so the count
/// decides. Upstream also asks that the successor ended later; but the two times come from clocks of different machines, and
/// where those disagree upstream forgets a failure.
fn in_order(pod: &Pod) -> (u32, Time) {
    (pod.earlier.total(), pod.finished_at)
}

impl<'a> Predecessors<'a> {
    /// Finds them among the pods of a job. `settled` are the indexes that need no other pod: one is active, has succeeded, or the
    /// index has failed.
    pub(super) fn of(wanted: &Wanted, pods: impl Iterator<Item = &'a Pod>, settled: &Indexes) -> Self {
        let mut last: HashMap<u32, &'a Pod> = HashMap::new();
        for pod in pods.filter(|pod| pod.tracked && pod.has_failed(wanted.replacement)) {
            let index = pod.index.filter(|_| has_place(wanted.completions, pod));
            let Some(index) = index.filter(|index| !settled.has(*index)) else { continue };
            let kept = last.entry(index).or_insert(pod);
            if in_order(kept) <= in_order(pod) {
                *kept = pod;
            }
        }
        Self(last)
    }

    /// Whether the pod must keep its finalizer until its successor exists.
    pub(super) fn has(&self, pod: &Pod) -> bool {
        pod.index.and_then(|index| self.0.get(&index)).is_some_and(|kept| kept.uid == pod.uid)
    }

    /// The failures of the index before its next pod, for the annotations of that pod.
    pub(super) fn failures_before(&self, wanted: &Wanted, index: u32) -> IndexFailures {
        let Some(pod) = self.0.get(&index) else { return IndexFailures::default() };
        let mut failures = pod.earlier;
        match wanted.action_on(pod) {
            Some(FailureAction::Ignore) => failures.ignored = failures.ignored.saturating_add(1),
            _ => failures.counted = failures.counted.saturating_add(1),
        }
        failures
    }

    /// The time from `now` until the index may have its next pod.
    pub(super) fn wait(&self, index: u32, now: Time) -> Duration {
        let backoff = self
            .0
            .get(&index)
            .map(|pod| Backoff::of_index(pod.earlier.total().saturating_add(1), pod.finished_at));
        backoff.unwrap_or_default().remaining(now)
    }
}
