//! Decides what becomes of an object that may be garbage. Pure.
//!
//! ```text
//! waits for its dependents ─> once none of them blocks it: remove the finalizer foregroundDeletion
//! owners: solid, and others ─> remove the references to the others
//!         waiting, and the object has dependents ─> delete in the foreground; in a circle, unblock it first
//!         all dangling or waiting ─> delete, as the object's own finalizers ask
//! ```

use std::time::Duration;

use steersman_api::{Meta, OwnerReference, ResourceVersion, Uid};
use steersman_controller::client::Propagation;
use steersman_controller::controller::StepResult;
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

use super::super::graph::{Dependents, is_waiting};
use super::super::kinds::Completeness;
use super::super::owners::Standing;
use super::super::writes::Wrote;
use super::super::{FOREGROUND, ORPHAN};

/// The wait for kinds whose first list is under way.
pub(in super::super) const LISTING: Duration = Duration::from_millis(500);
/// How many owners are looked up at once.
const LOOKS: usize = 8;

/// The state that decides about an object.
#[derive(Clone, Debug)]
pub(in super::super) struct Object {
    /// The newest known metadata.
    pub(super) meta: Meta,
    /// The standing of each owner, in the order of the references.
    pub(super) standings: Vec<Standing>,
    /// What the object's dependents are like.
    pub(super) dependents: Dependents,
    /// Whether some dependent blocks a foreground deletion of the object.
    pub(super) is_blocked: bool,
    /// Of which kinds the graph has all dependents.
    pub(super) completeness: Completeness,
    /// What the sync has done so far.
    pub(super) progress: Progress,
    /// Whether a write of the sync has met a conflict.
    pub(super) met_conflict: bool,
}

/// What a sync has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Progress {
    /// Nothing yet. The metadata is the cache's.
    Begun,
    /// A write found the object changed, so that it must be read.
    Outdated,
    /// A write or a read told the object's newest state.
    Current,
    /// The object was read after a conflict, and has the same owners as before. To ask for that very version again would starve
    /// the collector if other clients write the object often.
    RereadSameOwners,
    /// The object is dealt with, or gone.
    Done,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Step {
    /// Ask whether the owner of the reference at this index exists.
    Look(usize),
    /// Read the object.
    Read,
    /// Remove the references to these owners.
    Release(Vec<Uid>),
    /// Change the references so that they block no owner's deletion.
    Unblock,
    /// Delete the object, in this version only if there is one.
    Delete(Propagation, Option<ResourceVersion>),
    /// Remove the finalizer `foregroundDeletion`.
    Finish,
}

/// The result of a step.
#[derive(Clone, Debug)]
pub(in super::super) enum Outcome {
    /// The owner's standing.
    Standing(Standing),
    /// The object's newest state. `None` if it is gone.
    Read(Option<Box<Meta>>),
    /// The state that a write gave the object.
    Changed(Box<Meta>),
    /// What became of another write.
    Wrote(Wrote),
}

/// The next steps.
pub(super) fn plan(object: &Object) -> Plan<Step> {
    let Object { meta, standings, .. } = object;
    match object.progress {
        Progress::Done => return Plan::done(),
        Progress::Outdated => return Plan::step(Step::Read),
        _ => {}
    }
    if is_waiting(meta) {
        return finish(object);
    }
    // Dependents are dealt with once the object is gone.
    if meta.is_deleting() || meta.owners.is_empty() {
        return Plan::done();
    }
    let has = |standing: Standing| standings.contains(&standing);
    // Before the owners are looked up: whatever they are, the object stays, and comes again.
    if has(Standing::Invalid) {
        return Plan::done();
    }
    let waits = standings.iter().filter_map(|standing| match standing {
        Standing::Unmapped(wait) => Some(*wait),
        _ => None,
    });
    if let requeue_after @ Some(_) = waits.min() {
        return Plan::Done { requeue_after };
    }
    let unknown: Vec<_> =
        (0..standings.len()).filter(|at| standings[*at] == Standing::Unknown).map(Step::Look).collect();
    if !unknown.is_empty() {
        let pace = Pace::Together(LOOKS);
        return Plan::Act(Batch { steps: unknown, pace, on_failure: OnFailure::Stop });
    }
    let lost = lost_owners(meta, standings);
    if lost.is_empty() {
        return Plan::done();
    }
    // Without a version as a precondition, a write could rely on a cache that lags.
    if object.progress == Progress::Begun && meta.resource_version == ResourceVersion::ANY {
        return Plan::step(Step::Read);
    }
    if has(Standing::Solid) {
        return Plan::step(Step::Release(lost));
    }
    if has(Standing::Waiting) && object.dependents != Dependents::None {
        let blocks = |one: &OwnerReference| one.block_owner_deletion == Some(true);
        let in_circle = object.dependents == Dependents::Waiting && meta.owners.iter().any(blocks);
        if in_circle {
            return Plan::step(Step::Unblock);
        }
        return delete(object, Propagation::Foreground);
    }
    delete(object, own_propagation(meta))
}

/// The end of a foreground deletion.
fn finish(object: &Object) -> Plan<Step> {
    if object.is_blocked {
        // The last of the dependents that block the object queues it again.
        return Plan::done();
    }
    match object.completeness {
        // A dependent of a sick kind is found to be garbage when the kind recovers.
        Completeness::Complete | Completeness::ButSick => Plan::step(Step::Finish),
        Completeness::Listing => Plan::Done { requeue_after: Some(LISTING) },
    }
}

/// Deletes the object in the version that the plan was made for, so that an owner that it has got meanwhile saves it.
fn delete(object: &Object, propagation: Propagation) -> Plan<Step> {
    let known = Some(object.meta.resource_version).filter(|version| *version != ResourceVersion::ANY);
    let version = known.filter(|_| object.progress != Progress::RereadSameOwners);
    Plan::step(Step::Delete(propagation, version))
}

/// The owners whose references must go, because the object keeps another owner.
fn lost_owners(meta: &Meta, standings: &[Standing]) -> Vec<Uid> {
    let all = meta.owners.iter().zip(standings);
    let lost = all.filter(|(_, standing)| matches!(standing, Standing::Dangling | Standing::Waiting));
    lost.map(|(reference, _)| reference.uid.clone()).collect()
}

/// The propagation that the object's own finalizers ask for.
fn own_propagation(meta: &Meta) -> Propagation {
    if meta.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if meta.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

impl Object {
    /// Adds the result of a step. `known` is what is known of an owner without a call.
    pub(super) fn absorb(
        &mut self,
        step: &Step,
        result: StepResult<Outcome>,
        known: impl Fn(&OwnerReference) -> Standing,
    ) {
        let StepResult::Done(outcome) = result else { return };
        match (step, outcome) {
            (Step::Look(at), Outcome::Standing(standing)) => self.standings[*at] = standing,
            (_, Outcome::Read(None)) => self.progress = Progress::Done,
            (_, Outcome::Read(Some(newest))) => {
                let same = newest.owners == self.meta.owners;
                self.renew(*newest, known);
                self.progress = if same { Progress::RereadSameOwners } else { Progress::Current };
            }
            (_, Outcome::Changed(newest)) => {
                self.renew(*newest, known);
                self.progress = Progress::Current;
            }
            (_, Outcome::Wrote(Wrote::Conflict(_))) => {
                self.progress = Progress::Outdated;
                self.met_conflict = true;
            }
            _ => self.progress = Progress::Done,
        }
    }

    /// Takes over the object's newest state. What is known of its owners stays known, if they are the same.
    fn renew(&mut self, newest: Meta, known: impl Fn(&OwnerReference) -> Standing) {
        let name = |one: &OwnerReference| {
            (one.uid.clone(), one.api_version.clone(), one.kind.clone(), one.name.clone())
        };
        if !newest.owners.iter().map(name).eq(self.meta.owners.iter().map(name)) {
            self.standings = newest.owners.iter().map(known).collect();
        }
        self.meta = newest;
    }
}
