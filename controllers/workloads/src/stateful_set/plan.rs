//! What the controller does next about a StatefulSet.

use std::time::Duration;

use steersman_api::{ObjectKey, ResourceVersion, Time, Uid};
use steersman_controller::children::{Claim, Grounds};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

use super::observed::{Observed, Order};
use super::pods::Pod;
use super::revisions::{RevisionOutcome, RevisionStep};
use super::status::Status;
use super::steps::{Did, PodStep};

/// An action of the controller.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Make sure that the observation shows what other processes have written.
    Confirm,
    /// Make sure, by a live read, that the set still exists and is not being deleted.
    CheckAlive,
    /// Become a pod's owner.
    Adopt(PodRef),
    /// Cease to be a pod's owner.
    Release(PodRef),
    /// Change the set's history.
    Revision(RevisionStep),
    /// Find out, by a live read, whether a pod was ever ready.
    Inspect(PodRef),
    /// Change a pod and its claims.
    Pod(PodStep),
    /// Write the status.
    WriteStatus(Box<Status>),
}

/// Identifies a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodRef {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Tells the pod from other pods of that name.
    pub uid: Uid,
}

/// The result of a step.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The step was done.
    Done,
    /// The object does not exist.
    Gone,
    /// What became of the set's history.
    Revision(RevisionOutcome),
    /// Whether the pod was ever ready.
    EverReady(bool),
    /// What became of a pod and its claims.
    Pod(Vec<Did>),
    /// The status was written, and the set has this version now.
    Written(ResourceVersion),
    /// The set was observed anew. `None` if it is gone.
    Observed(Option<Box<Observed>>),
}

/// What one part of the policy decides.
pub(super) enum Next {
    /// These steps.
    Steps(Vec<Step>),
    /// Nothing: the next part decides.
    Nothing,
    /// Nothing, and the later parts must wait until something changes.
    Blocked,
}

/// Maximum number of calls of adoptions and releases that are under way at a time.
const AT_ONCE: usize = 64;

/// Decides on the next steps, in upstream's order:
///
/// 1. the set adopts its orphaned revisions, then adopts and releases pods;
/// 2. the template's revision is found, raised above the others, or created;
/// 3. unless the set is being deleted: wanted pods are created and repaired, the claims of condemned pods get their owners,
///    condemned pods are deleted, and outdated pods are deleted. Where pods are ordered, each waits for the one before;
/// 4. the status is written if anything in it has changed, also after a failure of 3;
/// 5. old revisions are deleted.
pub(super) fn plan(observed: &Observed, now: Time) -> Plan<Step> {
    if observed.done.gone {
        return Plan::done();
    }
    let next = claims(observed)
        .or_else(|| history(observed))
        .or_else(|| manage(observed, now))
        .unwrap_or_else(|| report(observed, now));
    if observed.grounds == Grounds::Unsure && matches!(next, Plan::Act(_)) {
        return Plan::step(Step::Confirm);
    }
    next
}

fn claims(observed: &Observed) -> Option<Plan<Step>> {
    let with = |claim, step: fn(PodRef) -> Step| {
        observed.pods.iter().filter(move |pod| pod.claim == claim).map(move |pod| step(PodRef::of(pod)))
    };
    let revisions: Vec<Step> = observed.revisions.adoptions().map(Step::Revision).collect();
    let adoptions: Vec<Step> = with(Claim::Orphan, Step::Adopt).collect();
    let adopts_none = revisions.is_empty() && adoptions.is_empty();
    if !adopts_none && !observed.done.alive {
        return Some(Plan::step(Step::CheckAlive));
    }
    let steps: Vec<Step> = with(Claim::Stray, Step::Release).chain(adoptions).collect();
    let steps = if revisions.is_empty() { steps } else { revisions };
    let pace = Pace::Together(AT_ONCE);
    (!steps.is_empty()).then(|| Plan::Act(Batch { steps, pace, on_failure: OnFailure::Stop }))
}

fn history(observed: &Observed) -> Option<Plan<Step>> {
    observed.revisions.settle().map(|step| Plan::step(Step::Revision(step)))
}

fn manage(observed: &Observed, now: Time) -> Option<Plan<Step>> {
    if observed.done.failed || observed.set.meta.is_deleting() {
        return None;
    }
    type Part = fn(&Observed, Time) -> Next;
    let parts: [Part; 4] = [
        Observed::replicas,
        |observed, _| observed.claims_of_condemned(),
        Observed::scale_down,
        Observed::rollout,
    ];
    for part in parts {
        match part(observed, now) {
            Next::Steps(steps) if !steps.is_empty() => {
                let pace = match observed.set.order {
                    Order::Ready => Pace::InOrder,
                    Order::Parallel => Pace::SlowStart,
                };
                return Some(Plan::Act(Batch { steps, pace, on_failure: OnFailure::PlanAgain }));
            }
            Next::Steps(_) | Next::Nothing => {}
            Next::Blocked => return None,
        }
    }
    None
}

fn report(observed: &Observed, now: Time) -> Plan<Step> {
    let (set, revisions) = (&observed.set, &observed.revisions);
    let Some((current, update)) = revisions.current(&set.status.current_revision).zip(revisions.update())
    else {
        return Plan::done();
    };
    let status = Status::of(observed, current, update, now);
    if status.must_replace(&set.status) {
        return Plan::step(Step::WriteStatus(Box::new(status)));
    }
    let in_use = observed.pods.iter().map(Pod::revision).chain([current, update]);
    let surplus = revisions.truncate(in_use, set.history_limit);
    if !surplus.is_empty() {
        let steps = surplus.into_iter().map(Step::Revision).collect();
        return Plan::Act(Batch { steps, pace: Pace::InOrder, on_failure: OnFailure::Stop });
    }
    let min_ready = set.min_ready;
    let waits = observed.numbered().filter_map(|pod| pod.available_in(min_ready, now));
    let next = waits.filter(|wait| !wait.is_zero()).min();
    // A pod that does not say since when it is ready must be looked at again all the same.
    let fallback =
        (!min_ready.is_zero() && status.ready_replicas != status.available_replicas).then_some(min_ready);
    Plan::Done { requeue_after: next.or(fallback).map(|wait| wait.max(Duration::from_millis(1))) }
}

impl Next {
    /// These steps; [`Nothing`](Self::Nothing) if there are none.
    pub(super) fn steps(steps: impl Iterator<Item = Step>) -> Self {
        let steps: Vec<Step> = steps.collect();
        if steps.is_empty() { Self::Nothing } else { Self::Steps(steps) }
    }
}

impl PodRef {
    /// Identifies this pod.
    pub(super) fn of(pod: &Pod) -> Self {
        Self { key: pod.key.clone(), uid: pod.uid.clone() }
    }
}
