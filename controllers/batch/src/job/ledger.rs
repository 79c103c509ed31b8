//! How finished pods get into the counters, each of them exactly once.
//!
//! A finished pod can't go, since it has a finalizer. To count it takes three writes, each of which can be done again:
//!
//! 1. the status gets the pod's uid, in `uncountedTerminatedPods` (of a success in an indexed job, its index, in
//!    `completedIndexes`);
//! 2. the pod loses its finalizer, and may go at any time;
//! 3. the status loses the uid, and its counter goes up by one.
//!
//! Before (1) the pod is there to be counted. Between (1) and (3) its uid says that it has to be, and that it is not to
//! be taken for a new one. (3) is done once the pod is gone or has no finalizer, and moves the uid from one place to the
//! other in a single write. So whoever looks at any time knows what is left to do: [`Ledger::of`] says it from the state
//! alone.

use std::collections::HashSet;

use arcstr::literal;
use steersman_api::condition::ConditionStatus;
use steersman_api::{Time, Uid};

use super::observed::Observed;
use super::pods::{Phase, Pod};
use super::status::{Announcement, Status, Uncounted, conditions};
use super::tally::{Tally, has_place};
use super::verdict::{End, Verdict};
use super::wanted::Completions;
use steersman_controller::pod_control::PodRef;

/// How many finished pods are in the status at once, so that it stays below some 20 KB. Upstream: `MaxUncountedPods`.
pub(super) const MOST_UNCOUNTED: usize = 500;

/// What to write into the status, and then which pods to let go.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) status: Status,
    /// What to say once that is written.
    pub(super) announcements: Vec<Announcement>,
    /// The pods that `status` accounts for and that still have their finalizers. They must not lose them before it is
    /// written.
    pub(super) release: Vec<PodRef>,
    /// More pods have finished than could be put into it.
    pub(super) more: bool,
}

/// Who decided on the number of pods in this sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Managed {
    /// What the spec wants: it says whether the job is suspended.
    BySpec,
    /// An end that is near, or the job's deletion: conditions stay as they are.
    Otherwise,
}

/// How a pod gets into the status.
enum Entry {
    Succeeded,
    Index(u32),
    Failed,
    /// It is let go uncounted.
    None,
}

impl Ledger {
    pub(super) fn of(
        observed: &Observed,
        tally: &Tally<'_>,
        verdict: Option<&Verdict>,
        managed: Managed,
        now: Time,
    ) -> Self {
        let mut ledger = Self {
            status: observed.job.status.clone(),
            announcements: Vec::new(),
            release: Vec::new(),
            more: false,
        };
        let wanted = &observed.job.wanted;
        let status = &mut ledger.status;
        if !wanted.suspended {
            status.start_time.get_or_insert(now);
        }
        status.active = super::count(tally.active.len());
        status.ready = Some(super::count(tally.ready));
        status.terminating = Some(super::count(tally.terminating));
        ledger.count_released(observed);
        ledger.enter_finished(observed, tally, verdict);
        match verdict {
            Some(verdict) => ledger.end(observed, tally, verdict, now),
            None if managed == Managed::BySpec => ledger.suspend_or_resume(wanted.suspended, now),
            None => {}
        }
        ledger
    }

    /// The third write: what has no finalizer any more goes from the list into the counter.
    fn count_released(&mut self, observed: &Observed) {
        let held: HashSet<&Uid> = observed.owned().filter(|pod| pod.tracked).map(|pod| &pod.uid).collect();
        let count = |uids: &mut Vec<Uid>| {
            let before = uids.len();
            uids.retain(|uid| held.contains(uid));
            super::count(before - uids.len())
        };
        let uncounted = self.status.uncounted.get_or_insert_default();
        let (succeeded, failed) = (count(&mut uncounted.succeeded), count(&mut uncounted.failed));
        self.status.succeeded = self.status.succeeded.saturating_add(succeeded);
        self.status.failed = self.status.failed.saturating_add(failed);
    }

    /// The first write: finished pods are entered, as far as there is room; at most once a sync, lest a job with very many
    /// pods never comes to the end of one.
    fn enter_finished(&mut self, observed: &Observed, tally: &Tally<'_>, verdict: Option<&Verdict>) {
        let completions = observed.job.wanted.completions;
        let (succeeded, failed) = self.status.uncounted();
        let known: HashSet<Uid> = succeeded.iter().chain(failed).cloned().collect();
        let mut indexes = tally.known_indexes.clone();
        let mut new_indexes = Vec::new();
        let Uncounted { succeeded, failed } = self.status.uncounted.get_or_insert_default();
        let mut pods: Vec<&Pod> = observed.owned().filter(|pod| pod.tracked).collect();
        if completions.are_indexed() {
            pods.sort_by_key(|pod| pod.index);
        }
        for pod in pods {
            let let_go = observed.job.meta.is_deleting()
                || verdict.is_some()
                || pod.phase == Phase::Succeeded
                || pod.has_failed();
            if !let_go {
                continue;
            }
            let entry = match entry(pod, completions, verdict) {
                Entry::Index(index) if indexes.has(index) => Entry::None,
                _ if known.contains(&pod.uid) => Entry::None,
                entry => entry,
            };
            if !matches!(entry, Entry::None) {
                let entered = new_indexes.len() + succeeded.len() + failed.len();
                if observed.done.entered || entered >= MOST_UNCOUNTED {
                    self.more = true;
                    continue;
                }
            }
            match entry {
                Entry::Succeeded => succeeded.push(pod.uid.clone()),
                Entry::Failed => failed.push(pod.uid.clone()),
                Entry::Index(index) if !new_indexes.contains(&index) => new_indexes.push(index),
                Entry::Index(_) | Entry::None => {}
            }
            self.release.push(pod.reference());
        }
        if completions.are_indexed() {
            indexes = indexes.with(new_indexes);
            self.status.succeeded = super::count(indexes.total());
            let text = indexes.to_string();
            if self.status.completed_indexes != text {
                self.status.completed_indexes = text.into();
            }
        }
    }

    /// The interim condition, and once that is written and everything counted, the final one.
    fn end(&mut self, observed: &Observed, tally: &Tally<'_>, verdict: &Verdict, now: Time) {
        let words = (&verdict.reason, &verdict.message);
        let end = verdict.end;
        self.status.ensure(end.interim(), ConditionStatus::True, words, now);
        let (succeeded, failed) = self.status.uncounted();
        let settled = observed.job.status.holds(end.interim())
            && succeeded.is_empty()
            && failed.is_empty()
            && self.release.is_empty()
            && !self.more
            && tally.terminating == 0;
        if !settled {
            return;
        }
        self.status.ensure(end.terminal(), ConditionStatus::True, words, now);
        match end {
            End::Success => {
                self.status.completion_time = Some(now);
                if let Completions::Count(count) | Completions::Indexes(count) =
                    observed.job.wanted.completions
                    && super::size(self.status.succeeded) > count
                {
                    self.announcements.push(Announcement::TooManySucceededPods);
                }
                self.announcements.push(Announcement::Complete(verdict.reason.clone()));
            }
            End::Failure => {
                self.announcements
                    .push(Announcement::Failed(verdict.reason.clone(), verdict.message.clone()));
            }
        }
    }

    /// The time that a job is suspended does not count against its deadline: it starts anew when it is resumed.
    fn suspend_or_resume(&mut self, suspended: bool, now: Time) {
        let kind = conditions::SUSPENDED;
        let status = &mut self.status;
        if suspended {
            let words = (&literal!("JobSuspended"), &literal!("Job suspended"));
            if status.ensure(kind, ConditionStatus::True, words, now) {
                status.start_time = None;
                self.announcements.push(Announcement::Suspended);
            }
        } else {
            let words = (&literal!("JobResumed"), &literal!("Job resumed"));
            if status.ensure(kind, ConditionStatus::False, words, now) {
                status.start_time = Some(now);
                self.announcements.push(Announcement::Resumed);
            }
        }
    }
}

fn entry(pod: &Pod, completions: Completions, verdict: Option<&Verdict>) -> Entry {
    if !has_place(completions, pod) {
        return Entry::None;
    }
    // A job that fails takes its unfinished pods with it; one that succeeds has no use for them.
    let fails = || pod.has_failed() || verdict.is_some_and(|verdict| verdict.end == End::Failure);
    match pod.index.filter(|_| completions.are_indexed()) {
        Some(index) if pod.phase == Phase::Succeeded => Entry::Index(index),
        None if pod.phase == Phase::Succeeded => Entry::Succeeded,
        _ if fails() => Entry::Failed,
        _ => Entry::None,
    }
}
