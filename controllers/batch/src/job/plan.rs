//! What a job controller does next.

use std::time::Duration;

use steersman_api::{ResourceVersion, Time};

use super::ledger::{Ledger, Managed};
use super::manage::{Work, end_all, manage};
use super::observed::{Grounds, Observed};
use super::pods::{Claim, Pod};
use super::status::StatusWrite;
use super::tally::Tally;
use super::verdict;
use super::wanted::Refusal;
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_controller::pod_control::PodRef;

/// Something to do about a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Say that the job is left alone.
    Refuse(Refusal),
    /// Read the job and its pods from the API server, in place of what the caches hold.
    Confirm,
    /// Read the job from the API server: is it still the same, and not being deleted?
    CheckAlive,
    /// Become a pod's owner.
    Adopt(PodRef),
    /// Cease to be a pod's owner.
    Disown(PodRef),
    /// Make a pod.
    Create {
        /// For this index, in an indexed job.
        index: Option<u32>,
        /// Why, for the metrics.
        reason: CreationReason,
    },
    /// Take off a pod's finalizer and delete it: it does not count, whatever it comes to.
    Discard(PodRef),
    /// Delete a pod. It stays, with its finalizer, until it is counted.
    Delete(PodRef),
    /// Write the status.
    WriteStatus(Box<StatusWrite>),
    /// Take off the finalizer of a pod that the status accounts for.
    Release(PodRef),
}

/// Why a pod is made: upstream's values of the label `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreationReason {
    /// There have not been enough.
    New,
    /// Others are ending, or have failed.
    RecreateTerminatingOrFailed,
}

/// What came of a step.
#[derive(Debug)]
pub enum Outcome {
    /// It was done.
    Done,
    /// There is no such pod.
    Gone,
    /// A pod was made.
    Created(Box<Pod>),
    /// The status was written, and the job has this version now.
    Written(ResourceVersion),
    /// The job was read anew; `None` if it is gone.
    Reread(Option<Box<Observed>>),
}

/// How many calls of a sync are under way at a time. The client has a limit of its own, and most of them wait in it.
const AT_ONCE: usize = 64;

/// How soon the next sync comes for what this one left. Upstream: `SyncJobBatchPeriod`.
const BATCH_PERIOD: Duration = Duration::from_secs(1);

/// The next steps about a job: a function of its state alone, so that it does not matter in which sync, or in which
/// process, a step is done. In this order:
///
/// 1. pods are adopted and released;
/// 2. pods are made or deleted, as the spec wants it, or because the job is at its end;
/// 3. the status is written, if anything in it has changed: finished pods are entered, those released are counted;
/// 4. pods that the status accounts for lose their finalizers; back to 3.
pub(super) fn plan(observed: &Observed, now: Time) -> Plan<Step> {
    if observed.done.all || observed.job.status.is_finished() {
        return Plan::done();
    }
    if let Some(refusal) = observed.refusal {
        return Plan::step(Step::Refuse(refusal));
    }
    let next = decide(observed, now);
    if observed.grounds == Grounds::Unsure && matches!(next, Plan::Act(_)) {
        return Plan::step(Step::Confirm);
    }
    next
}

fn decide(observed: &Observed, now: Time) -> Plan<Step> {
    if let Some(claims) = claims(observed) {
        return claims;
    }
    let tally = Tally::of(observed);
    let early = verdict::early(observed, &tally, now);
    let (managed, work) = match &early {
        Some(_) => (Managed::Otherwise, end_all(&tally)),
        None if observed.job.meta.is_deleting() => (Managed::Otherwise, Work::Nothing),
        None => (Managed::BySpec, manage(observed, &tally, now)),
    };
    let again = match work {
        Work::Create(steps) if !observed.done.pods => {
            return Plan::Act(Batch { steps, pace: Pace::SlowStart, on_failure: OnFailure::PlanAgain });
        }
        Work::Delete(steps) if !observed.done.pods => return together(steps, OnFailure::PlanAgain),
        // What is left after this sync has done its share.
        Work::Create(_) | Work::Delete(_) => Some(BATCH_PERIOD),
        Work::Wait(wait) => Some(wait.max(BATCH_PERIOD)),
        Work::Nothing => None,
    };
    let verdict = match early {
        Some(verdict) => tally.active.is_empty().then_some(verdict),
        None => verdict::complete(observed, &tally),
    };
    let ledger = Ledger::of(observed, &tally, verdict.as_ref(), managed, now);
    if ledger.status != observed.job.status {
        return Plan::step(Step::WriteStatus(Box::new(StatusWrite {
            uid: observed.job.meta.uid.clone(),
            resource_version: observed.job.meta.resource_version,
            was: observed.job.status.clone(),
            is: ledger.status,
            backoff: tally.backoff,
            announcements: ledger.announcements,
        })));
    }
    if !ledger.release.is_empty() && !observed.done.released {
        return together(ledger.release.into_iter().map(Step::Release).collect(), OnFailure::PlanAgain);
    }
    let uncounted = (ledger.more || !ledger.release.is_empty()).then_some(BATCH_PERIOD);
    let deadline = verdict::time_left(observed, now).filter(|_| verdict.is_none());
    Plan::Done { requeue_after: [again, uncounted, deadline].into_iter().flatten().min() }
}

/// Makes the pods that are meant by the selector, and only those, the job's own. If that fails, nothing else is done: how
/// many pods there are is not known.
fn claims(observed: &Observed) -> Option<Plan<Step>> {
    let with = |claim, step: fn(PodRef) -> Step| {
        let pods = observed.pods.iter().filter(move |pod| pod.claim == claim);
        pods.map(move |pod| step(pod.reference()))
    };
    let adoptions: Vec<Step> = with(Claim::Orphan, Step::Adopt).collect();
    if !adoptions.is_empty() && !observed.done.alive {
        return Some(Plan::step(Step::CheckAlive));
    }
    let steps: Vec<Step> = with(Claim::Stray, Step::Disown).chain(adoptions).collect();
    (!steps.is_empty()).then(|| together(steps, OnFailure::Stop))
}

fn together(steps: Vec<Step>, on_failure: OnFailure) -> Plan<Step> {
    Plan::Act(Batch { steps, pace: Pace::Together(AT_ONCE), on_failure })
}
