//! What the controller does next about a Deployment.

use steersman_api::{ArcStr, ResourceVersion, Time};
use steersman_controller::children::{Claim, Grounds};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_kinds::annotation::Annotations;

use super::annotations;
use super::observed::Observed;
use super::owner::Strategy;
use super::replica_set::{ReplicaSet, SetRef};
use super::rollback::RollBack;
use super::status::Status;
use super::{history, new_set, progress, recreate, rollback, rolling, scaling};

/// An action of the controller.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Make sure that the observation shows what other processes have written.
    Confirm,
    /// Make sure, by a live read, that the Deployment still exists and is not being deleted.
    CheckAlive,
    /// Become a ReplicaSet's owner.
    Adopt(SetRef),
    /// Cease to be a ReplicaSet's owner.
    Release(SetRef),
    /// Tell the user that the selector selects all pods.
    Refuse,
    /// Compute the hash of the template, by the rules of the cluster's minor version.
    Hash,
    /// Create the new ReplicaSet.
    Create(NewSet),
    /// Read the ReplicaSet that has the name of the new one: is it the new one, which the cache does not show yet?
    ReadNamesake(ArcStr),
    /// Write the annotations and `minReadySeconds` of the new ReplicaSet.
    Annotate(Annotate),
    /// Change the number of pods that a ReplicaSet wants.
    Scale(Scale),
    /// Delete a ReplicaSet.
    Delete(SetRef),
    /// Give the Deployment the template of an old revision, or drop the wish for it.
    RollBack(RollBack),
    /// Write the status, and the revision beside it.
    WriteStatus(WriteStatus),
}

/// The new ReplicaSet to create. Its template and its selector are the Deployment's.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NewSet {
    /// The name.
    pub name: ArcStr,
    /// The hash of the template, for the label `pod-template-hash`.
    pub hash: ArcStr,
    /// The number of pods that the ReplicaSet wants.
    pub replicas: i32,
    /// The annotations.
    pub annotations: Annotations,
}

/// A change of the new ReplicaSet's annotations and `minReadySeconds`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Annotate {
    /// The ReplicaSet.
    pub set: SetRef,
    /// The annotations that change.
    pub annotations: Vec<(ArcStr, ArcStr)>,
    /// How long a pod must be ready until it counts as available, in seconds.
    pub min_ready_seconds: i32,
}

/// A change of a ReplicaSet's size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    /// The ReplicaSet.
    pub set: SetRef,
    /// The number of pods that the ReplicaSet wants now.
    pub from: i32,
    /// The number of pods that the ReplicaSet shall want.
    pub to: i32,
    /// Why the size changes.
    pub stage: Stage,
}

/// The reasons for which a sync changes sizes, each at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Users have scaled the Deployment, or its rollout is paused.
    Event,
    /// The new ReplicaSet shall take its share.
    New,
    /// Old pods that are not available shall go. [`Old`](Self::Old) may follow.
    Unhealthy,
    /// Available old pods may go.
    Old,
}

/// A write of the status.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WriteStatus {
    /// The status.
    pub status: Status,
    /// The annotation `deployment.kubernetes.io/revision`, if it changes.
    pub revision: Option<ArcStr>,
}

/// The result of a step.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The step was done.
    Done,
    /// The hash of the template.
    Hashed(ArcStr),
    /// The object does not exist any more.
    Gone,
    /// The new ReplicaSet was created.
    Created(Box<ReplicaSet>),
    /// The name of the new ReplicaSet is taken.
    Exists,
    /// The new ReplicaSet existed already.
    Found(Box<ReplicaSet>),
    /// Another ReplicaSet has the name of the new one.
    Collision,
    /// Nothing can be created, because the namespace is being deleted.
    NamespaceTerminating,
    /// The ReplicaSet has this state now.
    Changed(Box<ReplicaSet>),
    /// The status was written, and the Deployment has this version now.
    Written(ResourceVersion),
    /// The Deployment was observed anew. `None` if it is gone.
    Observed(Option<Box<Observed>>),
}

/// Decides on the next steps, in this order:
///
/// 1. the Deployment adopts and releases ReplicaSets;
/// 2. the new ReplicaSet, if there is one, gets its annotations and its revision;
/// 3. sizes change by the first of these that applies: nothing while the Deployment is being deleted; scaling while it is
///    paused; a rollback; scaling after users changed `replicas`; the rollout by its strategy, which creates the new
///    ReplicaSet. A sync that changes sizes does no more of it: the next one goes by what came of that;
/// 4. old ReplicaSets beyond the history limit are deleted once the rollout is complete;
/// 5. the status is written if anything in it has changed. After a failure of 2 to 4, only the conditions are written that
///    were due before.
pub(super) fn plan(observed: &Observed, now: Time) -> Plan<Step> {
    if observed.done.ended {
        return Plan::done();
    }
    let next = next(observed, now);
    if observed.grounds == Grounds::Unsure && matches!(next, Plan::Act(_)) {
        return Plan::step(Step::Confirm);
    }
    next
}

fn next(observed: &Observed, now: Time) -> Plan<Step> {
    let deployment = &observed.deployment;
    if deployment.selects_all() {
        return refuse(observed);
    }
    if let Some(claims) = claims(observed) {
        return claims;
    }
    let begun = Status::begun(observed, now);
    if observed.done.failed {
        return report(observed, begun, Plan::done);
    }
    if observed.done.collided {
        let collision_count = Some(begun.collision_count.unwrap_or(0).wrapping_add(1));
        return report(observed, Status { collision_count, ..begun }, Plan::done);
    }
    let counted = || report(observed, Status::counted(observed, &begun, now), Plan::done);
    if let Some(annotate) = annotate(observed) {
        return steps(vec![annotate]);
    }
    if deployment.meta.is_deleting() {
        return counted();
    }
    let wish = rollback::wanted(deployment);
    if deployment.paused {
        let scales = scaling::steps(observed);
        if !scales.is_empty() {
            return steps(scales);
        }
        // A rollback, once the rollout is resumed, may need any revision.
        let surplus = if wish.is_none() { history::steps(observed) } else { Vec::new() };
        return if surplus.is_empty() { counted() } else { steps(surplus) };
    }
    if let Some(revision) = wish {
        let Some(_) = observed.new_set() else { return create(observed) };
        let roll_back = || Plan::step(Step::RollBack(rollback::to(observed, revision)));
        return report(observed, begun, roll_back);
    }
    if observed.done.scaled == Some(Stage::Event) || scaling::is_event(observed) {
        let scales = scaling::steps(observed);
        return if scales.is_empty() { counted() } else { steps(scales) };
    }
    let rollout = match deployment.strategy {
        Strategy::Recreate => recreate::next(observed),
        Strategy::RollingUpdate { .. } => rolling::next(observed),
    };
    match rollout {
        Rollout::Create => create(observed),
        Rollout::Scale(scales) => steps(scales),
        Rollout::Rest { clean_up } => {
            let surplus = if clean_up { history::steps(observed) } else { Vec::new() };
            if !surplus.is_empty() {
                return steps(surplus);
            }
            let done = || Plan::Done { requeue_after: progress::requeue_after(deployment, now) };
            report(observed, progress::status(observed, &begun, now), done)
        }
    }
}

/// What a strategy wants next.
#[derive(Debug, PartialEq)]
pub(super) enum Rollout {
    /// The new ReplicaSet.
    Create,
    /// Other sizes.
    Scale(Vec<Step>),
    /// Nothing but the status.
    Rest {
        /// Whether old ReplicaSets may be deleted.
        clean_up: bool,
    },
}

/// Nothing is done about a Deployment that selects all pods, as upstream.
fn refuse(observed: &Observed) -> Plan<Step> {
    if !observed.done.refused {
        return Plan::step(Step::Refuse);
    }
    let (stored, generation) = (&observed.deployment.status, observed.deployment.meta.generation);
    let observed_generation = stored.observed_generation.max(generation);
    report(observed, Status { observed_generation, ..stored.clone() }, Plan::done)
}

fn claims(observed: &Observed) -> Option<Plan<Step>> {
    let with = |claim, step: fn(SetRef) -> Step| {
        let sets = observed.sets.iter().filter(move |set| set.claim == claim);
        sets.map(move |set| step(set.reference.clone()))
    };
    let adoptions: Vec<Step> = with(Claim::Orphan, Step::Adopt).collect();
    if !adoptions.is_empty() && !observed.done.alive {
        return Some(Plan::step(Step::CheckAlive));
    }
    let steps: Vec<Step> = with(Claim::Stray, Step::Release).chain(adoptions).collect();
    (!steps.is_empty()).then(|| Plan::Act(Batch { steps, pace: Pace::InOrder, on_failure: OnFailure::Stop }))
}

/// The revision that follows those of all old ReplicaSets. Users can write any revision: the greatest has no successor.
fn next_revision(observed: &Observed) -> i64 {
    observed.old_sets().filter_map(ReplicaSet::revision).fold(0, i64::max).saturating_add(1)
}

fn annotate(observed: &Observed) -> Option<Step> {
    let (deployment, new) = (&observed.deployment, observed.new_set()?);
    let (wanted, changed) = annotations::of_new(deployment, new, next_revision(observed));
    let is_current = !changed && new.min_ready_seconds == deployment.min_ready_seconds;
    if is_current || observed.done.annotated {
        return None;
    }
    let differs = |(key, value): &(&ArcStr, &ArcStr)| new.annotations.get(key) != Some(value);
    let annotations =
        wanted.iter().filter(differs).map(|(key, value)| (key.clone(), value.clone())).collect();
    let min_ready_seconds = deployment.min_ready_seconds;
    Some(Step::Annotate(Annotate { set: new.reference.clone(), annotations, min_ready_seconds }))
}

fn create(observed: &Observed) -> Plan<Step> {
    let deployment = &observed.deployment;
    let Some(hash) = observed.done.hash.clone() else { return Plan::step(Step::Hash) };
    let name = new_set::name(&deployment.meta.key.name, &hash);
    if observed.done.exists {
        return steps(vec![Step::ReadNamesake(name)]);
    }
    let replicas = match deployment.strategy {
        Strategy::Recreate => deployment.replicas,
        Strategy::RollingUpdate { .. } => rolling::size_of_new(observed, 0),
    };
    let annotations = annotations::of_created(deployment, next_revision(observed));
    steps(vec![Step::Create(NewSet { name, hash, replicas, annotations })])
}

/// Writes the status if it differs from the stored one, or if the Deployment's revision is not that of its new ReplicaSet.
/// Otherwise `then`.
fn report(observed: &Observed, status: Status, then: impl FnOnce() -> Plan<Step>) -> Plan<Step> {
    let deployment = &observed.deployment;
    let of_new = |new: &ReplicaSet| new.annotations.get(annotations::REVISION).cloned().unwrap_or_default();
    let current = deployment.annotation(annotations::REVISION);
    let revision = observed.new_set().map(of_new).filter(|revision| *revision != current);
    if status == deployment.status && revision.is_none() {
        return then();
    }
    Plan::step(Step::WriteStatus(WriteStatus { status, revision }))
}

/// One step after the other. After a failure the conditions that are due are still written.
fn steps(steps: Vec<Step>) -> Plan<Step> {
    Plan::Act(Batch { steps, pace: Pace::InOrder, on_failure: OnFailure::PlanAgain })
}

impl ReplicaSet {
    /// The step that gives the ReplicaSet another size.
    pub(super) fn scale(&self, to: i32, stage: Stage) -> Step {
        Step::Scale(Scale { set: self.reference.clone(), from: self.replicas, to, stage })
    }
}
