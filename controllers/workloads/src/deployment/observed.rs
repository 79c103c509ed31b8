//! What a sync knows of a Deployment and its ReplicaSets.

use steersman_api::{ArcStr, ResourceVersion};
use steersman_controller::children::{Claim, Grounds};
use steersman_controller::controller::StepResult;

use super::annotations::REVISION;
use super::new_set;
use super::owner::Deployment;
use super::plan::{Outcome, Stage, Step};
use super::replica_set::{ReplicaSet, SetRef};
use super::status::Status;

/// A Deployment and its ReplicaSets as they were found, and as this sync has changed them since.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The Deployment.
    pub deployment: Deployment,
    /// The ReplicaSets that the Deployment has, or could adopt, from the oldest to the youngest.
    pub sets: Vec<ReplicaSet>,
    /// Whether the controller may act on this.
    pub grounds: Grounds,
    /// Whether the status has `terminatingReplicas`.
    pub counts_terminating: bool,
    /// What the sync has done already.
    pub done: Done,
}

/// What a sync does at most once, and what its status must tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Nothing is left to do: the Deployment is gone, or its namespace is being deleted, or a rollback was written.
    pub ended: bool,
    /// A live read has shown that the Deployment may adopt.
    pub alive: bool,
    /// A step failed. The sync only writes what its status has begun with.
    pub failed: bool,
    /// The event about a selector without requirements was recorded.
    pub refused: bool,
    /// The annotations of the new ReplicaSet were written.
    pub annotated: bool,
    /// The last stage of scaling that the sync has been through.
    pub scaled: Option<Stage>,
    /// The hash of the template, unless a collision has changed it.
    pub hash: Option<ArcStr>,
    /// The name of the new ReplicaSet that was created, until the status tells it.
    pub created: Option<ArcStr>,
    /// Why the new ReplicaSet could not be created, until the status tells it.
    pub create_failure: Option<String>,
    /// A ReplicaSet has the name of the new one, and the sync has not read it yet.
    pub exists: bool,
    /// Another ReplicaSet has the name of the new one, and the status does not count that yet.
    pub collided: bool,
}

impl Observed {
    /// The ReplicaSets that the Deployment has, from the oldest to the youngest.
    pub(super) fn owned(&self) -> impl DoubleEndedIterator<Item = &ReplicaSet> {
        self.sets.iter().filter(|set| set.claim == Claim::Owned)
    }

    /// The ReplicaSet with the Deployment's template; of several the oldest. Upstream's `FindNewReplicaSet`.
    pub(super) fn new_set(&self) -> Option<&ReplicaSet> {
        self.owned().find(|set| set.has_template)
    }

    /// The ReplicaSets but for the new one, from the oldest to the youngest.
    pub(super) fn old_sets(&self) -> impl DoubleEndedIterator<Item = &ReplicaSet> {
        let new = self.new_set().map(|new| &new.reference.uid);
        self.owned().filter(move |set| Some(&set.reference.uid) != new)
    }

    /// The sum of a number over the ReplicaSets that the Deployment has. It may exceed 32 bits: users can scale each of them to
    /// any size.
    pub(super) fn total(&self, number: fn(&ReplicaSet) -> i32) -> i64 {
        self.owned().map(|set| i64::from(number(set))).sum()
    }

    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Outcome>) {
        let outcome = match result {
            StepResult::Done(outcome) => outcome,
            StepResult::Skipped => return,
            StepResult::Failed(error) => {
                self.done.failed = true;
                if let Step::Create(new) = &step
                    && !error.is_end_of_leadership()
                {
                    self.done.create_failure = Some(new_set::failure(&new.name, &error));
                }
                return;
            }
        };
        match &step {
            Step::Scale(scale) => self.done.scaled = Some(scale.stage),
            Step::Annotate(_) => self.done.annotated = true,
            _ => {}
        }
        match (step, outcome) {
            (Step::Confirm, Outcome::Observed(Some(observed))) => *self = *observed,
            (Step::CheckAlive, _) => self.done.alive = true,
            (Step::Refuse, _) => self.done.refused = true,
            (Step::Hash, Outcome::Hashed(hash)) => self.done.hash = Some(hash),
            (Step::Create(_), Outcome::Created(set)) => {
                self.done.created = Some(set.name().clone());
                self.add(*set);
            }
            (Step::Create(_), Outcome::Exists) => self.done.exists = true,
            (Step::ReadNamesake(_), Outcome::Found(set)) => {
                self.done.exists = false;
                self.add(*set);
            }
            (Step::ReadNamesake(_), Outcome::Collision) => {
                self.done.exists = false;
                self.done.collided = true;
                self.done.hash = None;
            }
            (Step::Adopt(_) | Step::Scale(_) | Step::Annotate(_), Outcome::Changed(set)) => {
                self.replace(*set)
            }
            (Step::Release(set) | Step::Delete(set) | Step::Adopt(set), _) => self.remove(&set),
            (Step::Scale(scale), _) => self.remove(&scale.set),
            (Step::Annotate(annotate), _) => self.remove(&annotate.set),
            (Step::WriteStatus(write), Outcome::Written(version)) => {
                self.written(write.status, write.revision, version);
            }
            (
                Step::Confirm
                | Step::WriteStatus(_)
                | Step::RollBack(_)
                | Step::Hash
                | Step::Create(_)
                | Step::ReadNamesake(_),
                _,
            ) => self.done.ended = true,
        }
    }

    /// Takes over the API server's answer to a write, which no step does to the template or the pods.
    fn replace(&mut self, set: ReplicaSet) {
        let is_it = |other: &&mut ReplicaSet| other.reference.uid == set.reference.uid;
        if let Some(other) = self.sets.iter_mut().find(is_it) {
            *other = ReplicaSet {
                claim: Claim::Owned,
                has_template: other.has_template,
                runs_pods: other.runs_pods,
                ..set
            };
        }
    }

    fn add(&mut self, set: ReplicaSet) {
        self.remove(&set.reference);
        self.sets.push(set);
        self.sets.sort_by(ReplicaSet::age_order);
    }

    fn remove(&mut self, set: &SetRef) {
        self.sets.retain(|other| other.reference.uid != set.uid);
    }

    fn written(&mut self, status: Status, revision: Option<ArcStr>, version: ResourceVersion) {
        self.deployment.status = status;
        self.deployment.meta.resource_version = version;
        if let Some(revision) = revision {
            self.deployment.annotations.insert(REVISION.into(), revision);
        }
        self.done.created = None;
        self.done.create_failure = None;
        self.done.collided = false;
    }
}

/// The number of pods that comes closest: none instead of fewer, and the greatest `i32` instead of more.
pub(super) fn to_pods(number: i64) -> i32 {
    i32::try_from(number.max(0)).unwrap_or(i32::MAX)
}
