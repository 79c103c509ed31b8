//! Moves finished pods into the status's counters, each of them exactly once.
//!
//! The API server can't remove a finished pod while it has the tracking finalizer. Counting the pod takes three writes,
//! each of which can be repeated:
//!
//! 1. The controller puts the pod's uid into the status, in `uncountedTerminatedPods`. (For a success in an indexed job, it
//!    adds the pod's index to `completedIndexes` instead.)
//! 2. It removes the pod's finalizer. From then on the pod may disappear at any time.
//! 3. It removes the uid from the status and increases the counter by one.
//!
//! Before (1) the pod exists and is found by its finalizer. Between (1) and (3) its uid in the status tells that it must be
//! counted, and that it is not new. The controller does (3) once the pod is gone or has no finalizer, as a single write. So
//! the state alone tells at any time what is left to do, and [`Ledger::of`] derives it.

use std::collections::HashSet;

use arcstr::literal;
use steersman_api::condition::ConditionStatus;
use steersman_api::{Time, Uid};

use super::failure_policy::FailureAction;
use super::observed::{Observed, Suspension};
use super::plan::Step;
use super::pods::{Phase, Pod};
use super::status::{Announcement, Status, Uncounted, conditions};
use super::tally::{Tally, has_place};
use super::verdict::{End, Verdict};
use super::wanted::{Completions, Wanted};

/// Maximum number of finished pods in the status at once, so that their uids take at most some 20 KB. Upstream:
/// `MaxUncountedPods`.
pub(super) const MAX_UNCOUNTED: usize = 500;

/// The next status, and the pods that lose their finalizers after it is written.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) status: Status,
    /// The events to record once `status` is written.
    pub(super) announcements: Vec<Announcement>,
    /// For each pod that `status` newly counts by a rule of the pod failure policy: the rule's action.
    pub(super) handled: Vec<FailureAction>,
    /// Removes the finalizers of the pods that `status` accounts for, which the controller must not do before `status` is
    /// written, and of the pods that count for nothing.
    pub(super) release: Vec<Step>,
    /// Whether more pods have finished than fit into `status`.
    pub(super) more: bool,
}

/// What decided on the number of pods in this sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Managed {
    /// The spec, so the condition `Suspended` follows it too.
    BySpec,
    /// The job's end or deletion, so the condition `Suspended` stays as it is.
    Otherwise,
}

/// Where a finished pod enters the status.
enum Entry {
    Succeeded,
    Index(u32),
    /// Among the failed pods, by this rule of the pod failure policy if there is one.
    Failed(Option<FailureAction>),
    /// Nowhere: the pod failure policy ignores the pod.
    Ignored,
    /// Nowhere: the pod loses its finalizer without being counted.
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
            handled: Vec::new(),
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
            None if managed == Managed::BySpec => ledger.suspend_or_resume(observed, now),
            None => {}
        }
        ledger
    }

    /// Prepares the third write: moves pods without finalizer from the list of uids to the counters.
    fn count_released(&mut self, observed: &Observed) {
        let uncounted = self.status.uncounted.get_or_insert_default();
        if *uncounted == Uncounted::default() {
            return;
        }
        let held: HashSet<&Uid> = observed.owned().filter(|pod| pod.tracked).map(|pod| &pod.uid).collect();
        let count = |uids: &mut Vec<Uid>| {
            let before = uids.len();
            uids.retain(|uid| held.contains(uid));
            super::count(before - uids.len())
        };
        let (succeeded, failed) = (count(&mut uncounted.succeeded), count(&mut uncounted.failed));
        self.status.succeeded = self.status.succeeded.saturating_add(succeeded);
        self.status.failed = self.status.failed.saturating_add(failed);
    }

    /// Prepares the first write: adds finished pods to the status while it has room. Does so once for each sync, so that
    /// the sync of a job with many pods comes to an end.
    fn enter_finished(&mut self, observed: &Observed, tally: &Tally<'_>, verdict: Option<&Verdict>) {
        let wanted = &observed.job.wanted;
        let completions = wanted.completions;
        let (succeeded, failed) = self.status.uncounted();
        let known: HashSet<Uid> = succeeded.iter().chain(failed).cloned().collect();
        let mut indexes = tally.known_indexes.clone();
        let mut new_indexes = Vec::new();
        let Uncounted { succeeded, failed } = self.status.uncounted.get_or_insert_default();
        let all_go = observed.job.meta.is_deleting() || verdict.is_some();
        let may_go = |pod: &&Pod| {
            let waits = || tally.predecessors.has(pod) || fails_job(pod, wanted);
            all_go || pod.phase == Phase::Succeeded || pod.has_failed(wanted.replacement) && !waits()
        };
        let mut pods: Vec<&Pod> = observed.owned().filter(|pod| pod.tracked).filter(may_go).collect();
        if completions.are_indexed() {
            pods.sort_by_key(|pod| pod.index);
        }
        for pod in pods {
            let entry = match entry(pod, wanted, verdict) {
                Entry::Index(index) if indexes.has(index) || tally.failed_indexes.has(index) => Entry::None,
                _ if known.contains(&pod.uid) => Entry::None,
                entry => entry,
            };
            if !matches!(entry, Entry::None | Entry::Ignored) {
                let entered = new_indexes.len() + succeeded.len() + failed.len();
                if observed.done.entered || entered >= MAX_UNCOUNTED {
                    self.more = true;
                    continue;
                }
            }
            match entry {
                Entry::Succeeded => succeeded.push(pod.uid.clone()),
                Entry::Failed(action) => {
                    failed.push(pod.uid.clone());
                    self.handled.extend(action);
                }
                // The pods are in the order of their indexes.
                Entry::Index(index) if new_indexes.last() != Some(&index) => new_indexes.push(index),
                Entry::Index(_) | Entry::Ignored | Entry::None => {}
            }
            self.release.push(match entry {
                Entry::Ignored => Step::Ignore(pod.reference()),
                _ => Step::Release(pod.reference()),
            });
        }
        if completions.are_indexed() {
            indexes = indexes.with(new_indexes);
            self.status.succeeded = super::count(indexes.total());
            let text = indexes.to_string();
            if self.status.completed_indexes != text {
                self.status.completed_indexes = text.into();
            }
            let failed = wanted.per_index.map(|_| tally.failed_indexes.to_string());
            if self.status.failed_indexes.as_deref() != failed.as_deref() {
                self.status.failed_indexes = failed.map(Into::into);
            }
        }
    }

    /// Sets the interim condition. Once it is written and all pods are counted, sets the final condition.
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
                // The API server refuses a completion before the start. A start in the future is that of a leader before, whose clock
                // was ahead; upstream's job would not be complete until the clock has reached it.
                self.status.completion_time = self.status.start_time.max(Some(now));
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

    /// Sets the condition `Suspended` as the spec asks. The time that a job is suspended does not count against its
    /// deadline, so the start time is set at resumption. Before that it is cleared, for the API server lets the scheduling
    /// directives of the template change only while a suspended job has none.
    fn suspend_or_resume(&mut self, observed: &Observed, now: Time) {
        let kind = conditions::SUSPENDED;
        let status = &mut self.status;
        if observed.job.wanted.suspended {
            let words = (&literal!("JobSuspended"), &literal!("Job suspended"));
            if status.ensure(kind, ConditionStatus::True, words, now) {
                if observed.suspension == Suspension::ClearsStartTime {
                    status.start_time = None;
                }
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

/// Whether the job fails by this pod. Until the status says so, no more than the pod tells why: it must not disappear.
fn fails_job(pod: &Pod, wanted: &Wanted) -> bool {
    pod.phase == Phase::Failed && wanted.action_on(pod) == Some(FailureAction::FailJob)
}

fn entry(pod: &Pod, wanted: &Wanted, verdict: Option<&Verdict>) -> Entry {
    let completions = wanted.completions;
    if !has_place(completions, pod) {
        return Entry::None;
    }
    // A failing job counts its unfinished pods as failed. A successful one does not count them.
    let fails =
        || pod.has_failed(wanted.replacement) || verdict.is_some_and(|verdict| verdict.end == End::Failure);
    match pod.index.filter(|_| completions.are_indexed()) {
        Some(index) if pod.phase == Phase::Succeeded => Entry::Index(index),
        None if pod.phase == Phase::Succeeded => Entry::Succeeded,
        _ if fails() => match wanted.action_on(pod) {
            Some(FailureAction::Ignore) => Entry::Ignored,
            action => Entry::Failed(action),
        },
        _ => Entry::None,
    }
}
