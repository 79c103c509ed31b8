//! What a job controller does next.

use std::time::Duration;

use steersman_api::{ResourceVersion, Time};

use super::ledger::{Ledger, Managed};
use super::manage::{Work, end_all, manage};
use super::metrics::Action;
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
    /// No pod was made: the namespace is being deleted.
    NamespaceEnds,
    /// The status was written, and the job has this version now.
    Written(ResourceVersion),
    /// The job was read anew; `None` if it is gone.
    Reread(Option<Box<Observed>>),
}

/// How many calls of a sync are under way at a time. The client has a limit of its own, and most of them wait in it.
const AT_ONCE: usize = 64;

/// How soon the next sync comes for what this one left. Upstream: `SyncJobBatchPeriod`.
const BATCH_PERIOD: Duration = Duration::from_secs(1);

/// What policy decides about a job.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) plan: Plan<Step>,
    /// What a sync counts as whose first decision about the number of pods this is; `None` if it is about something else.
    pub(super) action: Option<Action>,
}

impl From<Plan<Step>> for Decision {
    fn from(plan: Plan<Step>) -> Self {
        Self { plan, action: None }
    }
}

/// Decides about the next steps of a sync: a function of its state alone, so that it does not matter in which sync, or in which
/// process, a step is done. In this order:
///
/// 1. pods are adopted and released;
/// 2. pods are made or deleted, as the spec wants it, or because the job is at its end;
/// 3. the status is written, if anything in it has changed: finished pods are entered, those released are counted;
/// 4. pods that the status accounts for lose their finalizers; back to 3.
///
/// A job that is refused has no pods made, and none counted. Once it is being deleted, its pods lose their finalizers, lest
/// it waits for them for ever.
pub(super) fn decide(observed: &Observed, now: Time) -> Decision {
    if observed.done.all || observed.job.status.is_finished() {
        return Plan::done().into();
    }
    let next = match observed.refusal {
        Some(_) if observed.job.meta.is_deleting() => let_go(observed).into(),
        Some(refusal) => return Plan::step(Step::Refuse(refusal)).into(),
        None => next(observed, now),
    };
    if observed.grounds == Grounds::Unsure && matches!(next.plan, Plan::Act(_)) {
        return Plan::step(Step::Confirm).into();
    }
    next
}

/// Takes the finalizer off all pods that have it.
fn let_go(observed: &Observed) -> Plan<Step> {
    let held = observed.owned().filter(|pod| pod.tracked);
    let steps: Vec<_> = held.map(|pod| Step::Release(pod.reference())).collect();
    if steps.is_empty() || observed.done.released {
        return Plan::done();
    }
    together(steps, OnFailure::PlanAgain)
}

fn next(observed: &Observed, now: Time) -> Decision {
    if let Some(claims) = claims(observed) {
        return claims.into();
    }
    let tally = Tally::of(observed);
    let early = verdict::early(observed, &tally, now);
    let (managed, work) = match &early {
        Some(_) => (Managed::Otherwise, end_all(&tally)),
        None if observed.job.meta.is_deleting() => (Managed::Otherwise, Work::Nothing),
        None => (Managed::BySpec, manage(observed, &tally, now)),
    };
    let action = Some(action(managed, &work, observed.job.wanted.suspended));
    let (mut left, mut wait_over) = (false, None);
    match work {
        Work::Create(steps) if !observed.done.pods => {
            let plan = Plan::Act(Batch { steps, pace: Pace::SlowStart, on_failure: OnFailure::PlanAgain });
            return Decision { plan, action };
        }
        Work::Delete(steps) if !observed.done.pods => {
            return Decision { plan: together(steps, OnFailure::PlanAgain), action };
        }
        // Left over after this sync has done its share. Nothing brings back a namespace that ends.
        Work::Create(_) => left = !observed.done.namespace_ends,
        Work::Delete(_) => left = true,
        Work::Wait(wait) => wait_over = Some(wait.max(BATCH_PERIOD)),
        Work::Nothing => {}
    }
    let deadline = verdict::time_left(observed, now).filter(|_| early.is_none());
    let verdict = match early {
        Some(verdict) => tally.active.is_empty().then_some(verdict),
        None => verdict::complete(observed, &tally),
    };
    let ledger = Ledger::of(observed, &tally, verdict.as_ref(), managed, now);
    if ledger.status != observed.job.status {
        let plan = Plan::step(Step::WriteStatus(Box::new(StatusWrite {
            uid: observed.job.meta.uid.clone(),
            resource_version: observed.job.meta.resource_version,
            was: observed.job.status.clone(),
            is: ledger.status,
            backoff: tally.backoff,
            announcements: ledger.announcements,
        })));
        return Decision { plan, action };
    }
    if !ledger.release.is_empty() && !observed.done.released {
        let releases = ledger.release.into_iter().map(Step::Release).collect();
        return Decision { plan: together(releases, OnFailure::PlanAgain), action };
    }
    left |= ledger.more || !ledger.release.is_empty();
    // What failed comes again after the key's back-off, and no sooner.
    let next_portion = (left && !observed.done.failed).then_some(BATCH_PERIOD);
    let deadline = deadline.filter(|_| verdict.is_none());
    let plan = Plan::Done { requeue_after: [wait_over, next_portion, deadline].into_iter().flatten().min() };
    Decision { plan, action }
}

/// The metrics' label for a sync, as upstream's `manageJob` chooses it. A sync that waits before it creates pods counts as
/// creating them, and a sync of a suspended job counts as deleting them, even if there are none.
fn action(managed: Managed, work: &Work, suspended: bool) -> Action {
    match (managed, work) {
        (Managed::Otherwise, _) => Action::Reconciling,
        (Managed::BySpec, Work::Delete(_)) => Action::PodsDeleted,
        (Managed::BySpec, _) if suspended => Action::PodsDeleted,
        (Managed::BySpec, Work::Create(_) | Work::Wait(_)) => Action::PodsCreated,
        (Managed::BySpec, Work::Nothing) => Action::Tracking,
    }
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
