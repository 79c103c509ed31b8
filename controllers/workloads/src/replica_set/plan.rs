//! What the controller does next about an owner.

use std::time::Duration;

use steersman_api::{ObjectKey, ResourceVersion, Time, Uid};
use steersman_controller::children::{Claim, Grounds};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

use super::observed::Observed;
use super::pods::Pod;
use super::rank;
use super::status::Status;

/// An action of the controller.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Make sure that the observation shows what other processes have written.
    Confirm,
    /// Make sure, by a live read, that the owner still exists and is not being deleted.
    CheckAlive,
    /// Become a pod's owner.
    Adopt(PodRef),
    /// Cease to be a pod's owner.
    Release(PodRef),
    /// Create a pod from the template.
    Create,
    /// Delete a pod.
    Delete {
        /// The pod.
        pod: PodRef,
        /// What the metric `sorting_deletion_age_ratio` observes. `None` unless the pod is ready and was chosen among
        /// several.
        age_ratio: Option<f64>,
    },
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
    /// A pod was created.
    Created(Box<Pod>),
    /// No pod was created, because the namespace is being deleted.
    NamespaceTerminating,
    /// The status was written, and the owner has this version now.
    Written(ResourceVersion),
    /// The owner was observed anew. `None` if it is gone.
    Observed(Option<Box<Observed>>),
}

/// Maximum number of pods that one sync creates or deletes. Upstream: `BurstReplicas`.
const BURST: usize = 500;
/// How many calls of a sync are under way at a time. The client's own limit holds most of them back.
const AT_ONCE: usize = 64;

/// Decides on the next steps, in this order:
///
/// 1. the owner adopts and releases active pods;
/// 2. pods are created or deleted, unless the owner is being deleted;
/// 3. the status is written if anything in it has changed, also after a failure of 2.
pub(super) fn plan(observed: &Observed, now: Time) -> Plan<Step> {
    if observed.done.gone {
        return Plan::done();
    }
    let next = claims(observed).or_else(|| manage(observed, now)).unwrap_or_else(|| report(observed, now));
    if observed.grounds == Grounds::Unsure && matches!(next, Plan::Act(_)) {
        return Plan::step(Step::Confirm);
    }
    next
}

fn claims(observed: &Observed) -> Option<Plan<Step>> {
    let with = |claim, step: fn(PodRef) -> Step| {
        let pods = observed.pods.iter().filter(move |pod| pod.claim == claim && pod.is_active());
        pods.map(move |pod| step(pod.reference()))
    };
    let adoptions: Vec<Step> = with(Claim::Orphan, Step::Adopt).collect();
    if !adoptions.is_empty() && !observed.done.alive {
        return Some(Plan::step(Step::CheckAlive));
    }
    let steps: Vec<Step> = with(Claim::Stray, Step::Release).chain(adoptions).collect();
    let pace = Pace::Together(AT_ONCE);
    (!steps.is_empty()).then(|| Plan::Act(Batch { steps, pace, on_failure: OnFailure::Stop }))
}

fn manage(observed: &Observed, now: Time) -> Option<Plan<Step>> {
    if observed.done.managed || observed.owner.meta.is_deleting() {
        return None;
    }
    let mut active: Vec<&Pod> = observed.owned().filter(|pod| pod.is_active()).collect();
    let wanted = observed.owner.replicas;
    let (steps, pace) = match active.len().checked_sub(wanted) {
        Some(0) => return None,
        None => (vec![Step::Create; (wanted - active.len()).min(BURST)], Pace::SlowStart),
        Some(surplus) => {
            let surplus = surplus.min(BURST);
            let mut youngest = None;
            if surplus < active.len() {
                rank::sort(&mut active, &observed.on_node, observed.features, now);
                youngest =
                    active.iter().filter(|pod| pod.ready.is_some()).filter_map(|pod| pod.created).max();
            }
            let delete =
                |pod: &&Pod| Step::Delete { pod: pod.reference(), age_ratio: age_ratio(pod, youngest, now) };
            (active[..surplus].iter().map(delete).collect(), Pace::Together(AT_ONCE))
        }
    };
    Some(Plan::Act(Batch { steps, pace, on_failure: OnFailure::PlanAgain }))
}

/// The pod's age divided by that of the youngest ready pod. `None` if the pod is not ready, or the youngest has no age.
/// Upstream divides whole milliseconds and drops the fraction.
fn age_ratio(pod: &Pod, youngest: Option<Time>, now: Time) -> Option<f64> {
    pod.ready?;
    let ratio = now.since(pod.created?).as_millis().checked_div(now.since(youngest?).as_millis())?;
    Some(f64::from(u32::try_from(ratio).unwrap_or(u32::MAX)))
}

fn report(observed: &Observed, now: Time) -> Plan<Step> {
    let status = Status::of(observed, now);
    if status != observed.owner.status {
        return Plan::step(Step::WriteStatus(Box::new(status)));
    }
    let min_ready = observed.owner.min_ready;
    let waits =
        observed.owned().filter(|pod| pod.is_active()).filter_map(|pod| pod.available_in(min_ready, now));
    let next = waits.filter(|wait| !wait.is_zero()).min();
    // A pod that does not say since when it is ready must be looked at again all the same.
    let fallback =
        (!min_ready.is_zero() && status.ready_replicas != status.available_replicas).then_some(min_ready);
    Plan::Done { requeue_after: next.or(fallback).map(|wait| wait.max(Duration::from_millis(1))) }
}

impl Pod {
    fn reference(&self) -> PodRef {
        PodRef { key: self.key.clone(), uid: self.uid.clone() }
    }
}
