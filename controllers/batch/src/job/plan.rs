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
use steersman_kinds::index_failures::IndexFailures;

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
        /// The failures of the index so far, if the job limits the failures of each index.
        earlier: Option<IndexFailures>,
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
    /// Remove the finalizer of a failed pod that the pod failure policy ignores.
    Ignore(PodRef),
}

/// Why a pod is created: upstream's values of the label `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreationReason {
    /// The job has not had enough pods yet.
    New,
    /// Other pods are being deleted, or have failed.
    RecreateTerminatingOrFailed,
    /// Other pods have failed, in a job that replaces no other pods.
    RecreateFailed,
}

/// The rest of a sync once its status is written, as far as it is known then: so a sync looks at all pods but once or twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rest {
    /// Removes the finalizers of pods that the status accounts for.
    release: Vec<Step>,
    /// Nothing else is to do: what is left is for the next sync. If other pods are active, that includes the counting of the
    /// pods that `release` releases, since the write that counts them can enter the next pods as well.
    ends: Option<Later>,
}

/// When the next sync must come, even if nothing changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Later {
    /// At this time. Pods may be created again, or the job reaches its deadline.
    at: Option<Time>,
    /// Soon, since work is left.
    portion: bool,
}

impl Later {
    fn plan(self, observed: &Observed, now: Time) -> Plan<Step> {
        // After a failed step the sync comes again after the key's back-off, and no sooner.
        let portion = (self.portion && !observed.done.failed).then_some(BATCH_PERIOD);
        Plan::Done { requeue_after: self.at.map(|at| at.since(now)).into_iter().chain(portion).min() }
    }
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
/// 4. pods that the status accounts for lose their finalizers. If other pods are active, the next sync counts them; else back
///    to 3.
///
/// The controller leaves a job alone that has finished, or that another controller manages. It creates and counts no pods of a
/// job that it refuses; once such a job is being deleted, its pods lose their finalizers, since the deletion may wait for them.
pub(super) fn decide(observed: &Observed, now: Time) -> Decision {
    let job = &observed.job;
    if observed.done.all || job.managed_by_other.is_some() || job.status.is_finished() {
        return Plan::done().into();
    }
    if let Some(rest) = &observed.rest {
        if !rest.release.is_empty() && !observed.done.released {
            return together(rest.release.clone(), OnFailure::PlanAgain).into();
        }
        if let Some(later) = rest.ends {
            return later.plan(observed, now).into();
        }
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
    let action = Some(action(managed, &work, observed.job.wanted.suspended));
    let mut later = Later::default();
    match work {
        Work::Create(steps) if !observed.done.pods => {
            let plan = Plan::Act(Batch { steps, pace: Pace::SlowStart, on_failure: OnFailure::PlanAgain });
            return Decision { plan, action };
        }
        Work::Delete(steps) if !observed.done.pods => {
            return Decision { plan: together(steps, OnFailure::PlanAgain), action };
        }
        // The rest is for the next sync. In a namespace that is being deleted there will be none.
        Work::Create(_) => later.portion = !observed.done.namespace_ends,
        Work::Delete(_) => later.portion = true,
        Work::Wait(wait) => later.at = Some(now + wait.max(BATCH_PERIOD)),
        Work::Nothing | Work::NoIndex => {}
    }
    let deadline = verdict::time_left(observed, now).filter(|_| early.is_none());
    let verdict = match early {
        Some(verdict) => tally.active.is_empty().then_some(verdict),
        None => verdict::complete(observed, &tally),
    };
    let deadline = deadline.filter(|_| verdict.is_none()).map(|left| now + left);
    later.at = later.at.into_iter().chain(deadline).min();
    let ledger = Ledger::of(observed, &tally, verdict.as_ref(), managed, now);
    later.portion |= ledger.more;
    if ledger.status != observed.job.status {
        let goes_on = ledger.release.is_empty() || !tally.active.is_empty();
        let ends = verdict.is_none() && goes_on;
        let (succeeded, failed) = ledger.status.uncounted();
        let has_uncounted = !succeeded.is_empty() || !failed.is_empty();
        later.portion |= !ledger.release.is_empty() && has_uncounted;
        let write = StatusWrite {
            was: observed.job.status.clone(),
            is: ledger.status,
            backoff: tally.backoff,
            announcements: ledger.announcements,
            handled: ledger.handled,
            rest: Rest { release: ledger.release, ends: ends.then_some(later) },
        };
        return Decision { plan: Plan::step(Step::WriteStatus(Box::new(write))), action };
    }
    if !ledger.release.is_empty() && !observed.done.released {
        return Decision { plan: together(ledger.release, OnFailure::PlanAgain), action };
    }
    later.portion |= !ledger.release.is_empty();
    Decision { plan: later.plan(observed, now), action }
}

/// The metrics' label for a sync, as upstream's `manageJob` chooses it. A sync that waits before it creates pods, or
/// finds no index for them, counts as creating them. A sync of a suspended job counts as deleting them, even if there are none.
fn action(managed: Managed, work: &Work, suspended: bool) -> Action {
    match (managed, work) {
        (Managed::Otherwise, _) => Action::Reconciling,
        (Managed::BySpec, Work::Delete(_)) => Action::PodsDeleted,
        (Managed::BySpec, _) if suspended => Action::PodsDeleted,
        (Managed::BySpec, Work::Create(_) | Work::Wait(_) | Work::NoIndex) => Action::PodsCreated,
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
