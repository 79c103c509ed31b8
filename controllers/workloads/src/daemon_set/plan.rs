//! What the controller does next about a DaemonSet.

use std::time::Duration;

use steersman_api::{ArcStr, ResourceVersion, Time};
use steersman_controller::children::{Claim, Grounds};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

use super::history::{self, History, Revision};
use super::manage::{Work, manage};
use super::observed::Observed;
use super::pods::{End, Pod, PodRef};
use super::rolling::roll;
use super::sites::Sites;
use super::status::Status;

/// An action of the controller.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Make sure that the observation shows what other processes have written.
    Confirm,
    /// Make sure, by a live read, that the DaemonSet still exists and is not being deleted.
    CheckAlive,
    /// Become a pod's owner.
    Adopt(PodRef),
    /// Cease to be a pod's owner.
    Release(PodRef),
    /// Become a revision's owner.
    AdoptRevision(Revision),
    /// Cease to be a revision's owner.
    ReleaseRevision(Revision),
    /// Give a revision without a hash its own name as the hash.
    LabelRevision(Revision),
    /// Store the DaemonSet's template as a revision of this number.
    CreateRevision {
        /// The number.
        number: i64,
    },
    /// Give a revision another number.
    RenumberRevision {
        /// The revision.
        revision: Revision,
        /// The number.
        number: i64,
    },
    /// Delete a revision.
    DeleteRevision(Revision),
    /// Make a pod one of another revision.
    Relabel {
        /// The pod.
        pod: PodRef,
        /// The revision's hash.
        hash: ArcStr,
    },
    /// Create a pod for a node.
    Create {
        /// The node's name.
        node: ArcStr,
        /// The hash of the current revision.
        hash: ArcStr,
        /// Why.
        cause: Cause,
    },
    /// Delete a pod.
    Delete {
        /// The pod.
        pod: PodRef,
        /// The name of the node that the pod is for.
        node: ArcStr,
        /// How the pod has ended, if that is why it is deleted.
        end: Option<End>,
        /// Why.
        cause: Cause,
    },
    /// Write the status.
    WriteStatus(Box<Status>),
}

/// Why the controller creates or deletes a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A node lacks a pod, or has one that is not wanted there.
    Placement,
    /// A rolling update replaces pods.
    Update,
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
    /// The revision is so now.
    Revision(Box<Revision>),
    /// The new revision's name is taken by a revision of another template.
    Collision,
    /// The status was written, and the DaemonSet has this version now.
    Written(ResourceVersion),
    /// The DaemonSet was observed anew. `None` if it is gone.
    Observed(Option<Box<Observed>>),
}

/// Maximum number of pods that one sync creates, and deletes. Upstream: `BurstReplicas`.
const BURST: usize = 250;
/// How many deletions of a sync are under way at a time. The client's own limit holds most of them back.
const AT_ONCE: usize = 64;

/// Decides on the next steps, in this order:
///
/// 1. the DaemonSet adopts and releases pods and revisions;
/// 2. the current template gets a revision, the latest;
/// 3. nodes get the pods that they lack and lose those that are not wanted there;
/// 4. if 3 found nothing to do, a rolling update goes on;
/// 5. old revisions are deleted, unless a step of 3 or 4 failed;
/// 6. the status is written if anything in it has changed.
///
/// A DaemonSet that is being deleted is left alone: its pods and revisions are the garbage collector's.
pub(super) fn plan(observed: &Observed, now: Time) -> Plan<Step> {
    if observed.done.gone || observed.set.meta.is_deleting() {
        return Plan::done();
    }
    let next = claims(observed).unwrap_or_else(|| match History::of(observed) {
        History::Unsettled(_) if observed.done.collided => bump_collision_count(observed),
        History::Unsettled(plan) => plan,
        History::Settled { current, old } => settled(observed, current, old, now),
    });
    if observed.grounds == Grounds::Unsure && matches!(next, Plan::Act(_)) {
        return Plan::step(Step::Confirm);
    }
    next
}

fn claims(observed: &Observed) -> Option<Plan<Step>> {
    let pods = |claim, step: fn(PodRef) -> Step| {
        let pods = observed.pods.iter().filter(move |pod| pod.claim == claim);
        pods.map(move |pod| step(pod.reference()))
    };
    let revisions = |claim, step: fn(Revision) -> Step| {
        let revisions = observed.revisions.iter().filter(move |revision| revision.claim == claim);
        revisions.cloned().map(step)
    };
    let adoptions: Vec<Step> =
        revisions(Claim::Orphan, Step::AdoptRevision).chain(pods(Claim::Orphan, Step::Adopt)).collect();
    if !adoptions.is_empty() && !observed.done.alive {
        return Some(Plan::step(Step::CheckAlive));
    }
    let releases = revisions(Claim::Stray, Step::ReleaseRevision).chain(pods(Claim::Stray, Step::Release));
    let steps: Vec<Step> = releases.chain(adoptions).collect();
    let pace = Pace::Together(AT_ONCE);
    (!steps.is_empty()).then(|| Plan::Act(Batch { steps, pace, on_failure: OnFailure::Stop }))
}

/// A higher collision count gives the revision another name. Beyond the highest one, the API server refuses the status: the sync
/// fails, where it would otherwise try the same name again.
fn bump_collision_count(observed: &Observed) -> Plan<Step> {
    let mut status = observed.set.status.clone();
    status.collision_count = Some(status.collision_count.unwrap_or(0).wrapping_add(1));
    Plan::step(Step::WriteStatus(Box::new(status)))
}

fn settled(observed: &Observed, current: &Revision, old: Vec<&Revision>, now: Time) -> Plan<Step> {
    let (sites, hash, done) = (Sites::of(observed), &current.hash, &observed.done);
    let managed = manage(observed, &sites, hash, now);
    let manages = || steps(observed, &managed, hash, Cause::Placement);
    let rolls = || {
        let goes_on = !done.failed && done.cause != Some(Cause::Placement);
        goes_on.then(|| roll(observed, &sites, hash, now))
    };
    let trims = || if done.failed { None } else { history::trim(observed, old) };
    None.or_else(manages)
        .or_else(|| steps(observed, &rolls()?, hash, Cause::Update))
        .or_else(trims)
        .unwrap_or_else(|| report(observed, &sites, hash, managed.wait, now))
}

/// The deletions of a kind, and then its creations, each once in a sync.
fn steps(observed: &Observed, work: &Work<'_>, hash: &ArcStr, cause: Cause) -> Option<Plan<Step>> {
    let done = &observed.done;
    if done.cause.is_some_and(|before| before != cause) {
        return None;
    }
    let batch = |steps, pace| Some(Plan::Act(Batch { steps, pace, on_failure: OnFailure::PlanAgain }));
    let ended = work.ended.iter().map(|pod| (pod, pod.end));
    let delete = ended.chain(work.delete.iter().map(|pod| (pod, None)));
    let delete =
        delete.map(|(pod, end)| Step::Delete { pod: pod.reference(), node: pod.node.clone(), end, cause });
    let deletions: Vec<Step> = delete.take(BURST).collect();
    if !done.deleted && !deletions.is_empty() {
        return batch(deletions, Pace::Together(AT_ONCE));
    }
    if !done.created && !work.create.is_empty() {
        let create = |node: &&ArcStr| Step::Create { node: (*node).clone(), hash: hash.clone(), cause };
        return batch(work.create.iter().take(BURST).map(create).collect(), Pace::SlowStart);
    }
    None
}

fn report(
    observed: &Observed,
    sites: &Sites<'_>,
    hash: &str,
    back_off: Option<Duration>,
    now: Time,
) -> Plan<Step> {
    let status = Status::of(observed, sites, hash, now);
    if status != observed.set.status {
        return Plan::step(Step::WriteStatus(Box::new(status)));
    }
    let min_ready = observed.set.min_ready;
    let owned = observed.pods.iter().filter(|pod| pod.claim == Claim::Owned && !pod.deleting);
    let waits = owned.filter_map(|pod| pod.available_in(min_ready, now)).filter(|wait| !wait.is_zero());
    // A pod that does not say since when it is ready must be looked at again all the same.
    let fallback =
        (!min_ready.is_zero() && status.number_ready != status.number_available).then_some(min_ready);
    let next = waits.min().or(fallback).into_iter().chain(back_off).min();
    Plan::Done { requeue_after: next.map(|wait| wait.max(Duration::from_millis(1))) }
}
