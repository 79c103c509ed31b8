//! How long a job waits before it replaces failed pods.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::{Meta, ObjectKey, Time, Uid};

use super::pods::{Phase, Pod};
use super::status::Status;

/// The wait after the first failure. It doubles with each failure that follows without a success. Upstream:
/// `DefaultJobPodFailureBackOff`.
const FIRST: Duration = Duration::from_secs(10);
/// The longest wait. Upstream: `MaxJobPodFailureBackOff`.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// A job's failures since its last success, in the order in which pods finished.
///
/// The controller remembers it between syncs ([`Backoffs`]), and changes it only once the status that counts the same pods is
/// written, so that each pod counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
    last_failure: Option<Time>,
}

impl Backoff {
    /// The back-off as far as the counted pods tell it: for a process that has just begun to lead. (Upstream's controller
    /// begins at zero, so that it replaces the pods of a failing job quickly again.)
    pub(super) fn recall(status: &Status, pods: &[Pod]) -> Self {
        let (uncounted_succeeded, uncounted_failed) = status.uncounted();
        let entered =
            |pod: &Pod| uncounted_succeeded.iter().chain(uncounted_failed).any(|uid| *uid == pod.uid);
        let (mut succeeded, mut failed) = (Vec::new(), Vec::new());
        for pod in pods.iter().filter(|pod| !pod.tracked || entered(pod)) {
            match pod.phase {
                Phase::Succeeded => succeeded.push(pod.finished_at),
                Phase::Failed => failed.push(pod.finished_at),
                _ => {}
            }
        }
        Self::default().after(&succeeded, &failed)
    }

    /// The back-off of an index with that many failures, of which the last one was at this time.
    pub(super) fn of_index(failures: u32, last_failure: Time) -> Self {
        Self { failures, last_failure: Some(last_failure) }
    }

    /// The back-off after pods have succeeded and failed at these times.
    pub(super) fn after(self, succeeded: &[Time], failed: &[Time]) -> Self {
        let last_success = succeeded.iter().max();
        let before = if last_success.is_some() { Self::default() } else { self };
        let counted = failed.iter().filter(|failure| last_success.is_none_or(|success| *failure > success));
        let count = u32::try_from(counted.clone().count()).unwrap_or(u32::MAX);
        Self {
            failures: before.failures.saturating_add(count),
            last_failure: counted.max().copied().or(before.last_failure),
        }
    }

    /// The time from `now` until the controller may create pods again.
    pub(super) fn remaining(self, now: Time) -> Duration {
        let (Some(last_failure), Some(doublings)) = (self.last_failure, self.failures.checked_sub(1)) else {
            return Duration::ZERO;
        };
        // Six doublings are beyond the longest.
        let wait = LONGEST.min(FIRST * 2_u32.pow(doublings.min(6)));
        wait.saturating_sub(now.since(last_failure))
    }
}

/// The back-off of each job of which this process has counted pods in this term.
#[derive(Debug, Default)]
pub(super) struct Backoffs(Mutex<HashMap<ObjectKey, (Uid, Backoff)>>);

impl Backoffs {
    /// The back-off of the job with this metadata.
    pub(super) fn get(&self, job: &Meta) -> Option<Backoff> {
        self.0.lock().get(&job.key).filter(|(uid, _)| *uid == job.uid).map(|(_, backoff)| *backoff)
    }

    /// Remembers the back-off of a job whose status was written.
    pub(super) fn set(&self, job: &Meta, backoff: Backoff) {
        self.0.lock().insert(job.key.clone(), (job.uid.clone(), backoff));
    }

    /// Forgets a job that is gone or has finished.
    pub(super) fn forget(&self, job: &ObjectKey) {
        self.0.lock().remove(job);
    }

    /// Forgets all jobs: a new term begins.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: &[i64]) -> Vec<Time> {
        seconds.iter().copied().map(Time::from_seconds).collect()
    }

    #[test]
    fn the_wait_doubles_with_each_failure_up_to_ten_minutes() {
        for (failures, wait) in
            [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (8, 600), (4_000_000_000, 600)]
        {
            let backoff = Backoff { failures, last_failure: Some(Time::from_seconds(100)) };
            assert_eq!(backoff.remaining(Time::from_seconds(100)).as_secs(), wait, "{failures}");
        }
    }

    #[test]
    fn the_wait_begins_when_the_last_pod_failed() {
        let backoff = Backoff::default().after(&[], &at(&[100, 90]));
        for (now, left) in [(95, 20), (100, 20), (110, 10), (120, 0), (500, 0)] {
            assert_eq!(backoff.remaining(Time::from_seconds(now)).as_secs(), left, "at {now}");
        }
    }

    #[test]
    fn a_success_ends_what_came_before_it_and_nothing_that_came_after() {
        let failed_twice = Backoff::default().after(&[], &at(&[10, 20]));
        for (succeeded, failed, expected) in [
            (&[][..], &[][..], (2, Some(20))),
            (&[], &[30], (3, Some(30))),
            (&[30], &[], (0, None)),
            (&[30], &[25], (0, None)),
            (&[30], &[30], (0, None)),
            (&[30], &[25, 40, 50], (2, Some(50))),
            (&[30, 60], &[40, 50], (0, None)),
        ] {
            let after = failed_twice.after(&at(succeeded), &at(failed));
            let expected = Backoff { failures: expected.0, last_failure: expected.1.map(Time::from_seconds) };
            assert_eq!(after, expected, "{succeeded:?} {failed:?}");
        }
    }
}
