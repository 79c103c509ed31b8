//! What a job controller does next.

use std::time::Duration;

use steersman_api::{ResourceVersion, Time};

use super::ledger::{Ledger, Managed};
use super::manage::{Work, end_all, manage};
use super::metrics::Action;
use super::observed::Observed;
use super::pods::Pod;
use super::status::StatusWrite;
use super::tally::Tally;
use super::verdict;
use super::wanted::Refusal;
use steersman_controller::children::{Claim, Grounds};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_controller::pod_control::PodRef;

/// An action of the controller.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Record an event which says that the controller leaves the job alone.
    Refuse(Refusal),
    /// Make sure that the observation shows what other processes have written.
    Confirm,
    /// Make sure, by a live read, that the job still exists and is not being deleted.
    CheckAlive,
    /// Become a pod's owner.
    Adopt(PodRef),
    /// Cease to be a pod's owner.
    Disown(PodRef),
    /// Create a pod.
    Create {
        /// The pod's index in an indexed job.
        index: Option<u32>,
        /// The reason, for the metrics.
        reason: CreationReason,
    },
    /// Remove a pod's finalizer and delete the pod: it does not count, however it ends.
    Discard(PodRef),
    /// Delete a pod. It stays, with its finalizer, until it is counted.
    Delete(PodRef),
    /// Write the status.
    WriteStatus(Box<StatusWrite>),
    /// Remove the finalizer of a pod that the status accounts for.
    Release(PodRef),
}

impl Step {
    /// What a sync counts as whose first step this is, once its pods are claimed. `None`: the step does not tell.
    pub(super) fn action(&self) -> Option<Action> {
        match self {
            Self::Create { .. } => Some(Action::PodsCreated),
            Self::Discard(_) => Some(Action::PodsDeleted),
            // Only the end of a job deletes pods that still count.
            Self::Delete(_) => Some(Action::Reconciling),
            Self::WriteStatus(write) => Some(write.action),
            Self::Refuse(_)
            | Self::Confirm
            | Self::CheckAlive
            | Self::Adopt(_)
            | Self::Disown(_)
            | Self::Release(_) => None,
        }
    }
}

/// Why a pod is created: upstream's values of the label `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreationReason {
    /// The job has not had enough pods yet.
    New,
    /// Other pods are being deleted, or have failed.
    RecreateTerminatingOrFailed,
}

/// The result of a step.
#[derive(Debug)]
pub enum Outcome {
    /// The step was done.
    Done,
    /// The pod does not exist.
    Gone,
    /// A pod was created.
    Created(Box<Pod>),
    /// No pod was created, because the namespace is being deleted.
    NamespaceEnds,
    /// The status was written, and the job has this version now.
    Written(ResourceVersion),
    /// The job was observed anew. `None` if it is gone.
    Reread(Option<Box<Observed>>),
}

/// How many calls of a sync are under way at a time. The client's own limit holds most of them back.
const AT_ONCE: usize = 64;

/// The time until the next sync, if this one left work undone. Upstream: `SyncJobBatchPeriod`.
const BATCH_PERIOD: Duration = Duration::from_secs(1);

/// What policy decides about a job.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) plan: Plan<Step>,
    /// What a sync counts as whose first decision about the number of pods this is. `None` if the decision is about something
    /// else.
    pub(super) action: Option<Action>,
}

impl From<Plan<Step>> for Decision {
    fn from(plan: Plan<Step>) -> Self {
        Self { plan, action: None }
    }
}

/// Decides on the next steps of a sync. A function of the observed state alone, so that it does not matter which sync, or which
/// process, does a step. In this order:
///
/// 1. the job adopts and releases pods;
/// 2. pods are created or deleted, as the spec wants it, or because the job is at its end;
/// 3. the status is written, if anything in it has changed: it enters finished pods, and counts those without a finalizer;
/// 4. pods that the status accounts for lose their finalizers; back to 3.
///
/// The controller leaves a job alone that has finished, or that another controller manages. It creates and counts no pods of a
/// job that it refuses; once such a job is being deleted, its pods lose their finalizers, since the deletion may wait for them.
pub(super) fn decide(observed: &Observed, now: Time) -> Decision {
    let job = &observed.job;
    if observed.done.all || job.managed_by_other.is_some() || job.status.is_finished() {
        return Plan::done().into();
    }
    let next = match observed.refusal {
        Some(_) if job.meta.is_deleting() => let_go(observed).into(),
        Some(refusal) => return Plan::step(Step::Refuse(refusal)).into(),
        None => next(observed, now),
    };
    if observed.grounds == Grounds::Unsure && matches!(next.plan, Plan::Act(_)) {
        return Plan::step(Step::Confirm).into();
    }
    next
}

/// Removes the finalizer of all pods that have it.
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
    let label = action(managed, &work, observed.job.wanted.suspended);
    let action = Some(label);
    let (mut left, mut wait_over) = (false, None);
    match work {
        Work::Create(steps) if !observed.done.pods => {
            let plan = Plan::Act(Batch { steps, pace: Pace::SlowStart, on_failure: OnFailure::PlanAgain });
            return Decision { plan, action };
        }
        Work::Delete(steps) if !observed.done.pods => {
            return Decision { plan: together(steps, OnFailure::PlanAgain), action };
        }
        // The rest is for the next sync. In a namespace that is being deleted there will be none.
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
            was: observed.job.status.clone(),
            is: ledger.status,
            backoff: tally.backoff,
            announcements: ledger.announcements,
            action: label,
        })));
        return Decision { plan, action };
    }
    if !ledger.release.is_empty() && !observed.done.released {
        let releases = ledger.release.into_iter().map(Step::Release).collect();
        return Decision { plan: together(releases, OnFailure::PlanAgain), action };
    }
    left |= ledger.more || !ledger.release.is_empty();
    // After a failed step the sync comes again after the key's back-off, and no sooner.
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

/// Makes the job the owner of the pods that its selector selects, and of no others. If a step fails, the sync ends, since the
/// number of the job's pods is not known.
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
