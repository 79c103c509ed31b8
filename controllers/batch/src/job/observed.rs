//! What a sync knows of a job and its pods.

use std::collections::HashMap;
use std::sync::OnceLock;

use steersman_api::{ArcStr, Meta, Uid};
use steersman_informer::wire::{Group, Object, Opaque};

use super::SyncedJob;
use super::backoff::Backoff;
use super::metrics::Action;
use super::plan::{Outcome, Rest, Step};
use super::pods::{Deletion, Pod};
use super::status::Status;
use super::wanted::{Refusal, Wanted};
use steersman_controller::children::{Claim, Family, Grounds};
use steersman_controller::controller::StepResult;
use steersman_kinds::job::{Job as CachedJob, JobSpec, JobStatus, JobTemplate};

/// A job and its pods as they were found, and as this sync has changed them since.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The job.
    pub job: Job,
    /// Why the controller refuses the job. `None` if it does not.
    pub refusal: Option<Refusal>,
    /// The pods that the job owns, or could adopt.
    pub pods: Vec<Pod>,
    /// The back-off after the failures that the status has counted.
    pub backoff: Backoff,
    /// Whether the controller may act on this.
    pub grounds: Grounds,
    /// What the suspension of a job does to its start time.
    pub suspension: Suspension,
    /// What this sync has done already.
    pub done: Done,
    /// What is left of this sync since it wrote a status.
    pub rest: Option<Rest>,
    /// The metrics' label for this sync: that of its first decision about the number of pods.
    pub(super) action: OnceLock<Action>,
    /// Where in `pods` each pod is.
    pub(super) places: Places,
}

/// What the suspension of a job does to its start time, by the gate `MutableSchedulingDirectivesForSuspendedJobs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// Clears it. The API server then lets the template's scheduling directives change.
    ClearsStartTime,
    /// Keeps it.
    KeepsStartTime,
}

/// Finds pods by their uids, so that a sync of many pods takes in the results of its steps in linear time.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(HashMap<Uid, usize>);

impl Places {
    fn find(&mut self, pods: &[Pod], uid: &Uid) -> Option<usize> {
        let is_there = |place: &usize| pods.get(*place).is_some_and(|pod| pod.uid == *uid);
        if let Some(place) = self.0.get(uid).copied().filter(is_there) {
            return Some(place);
        }
        if self.0.len() != pods.len() {
            self.0 = pods.iter().enumerate().map(|(place, pod)| (pod.uid.clone(), place)).collect();
        }
        self.0.get(uid).copied().filter(is_there)
    }

    /// Removes a pod. The last pod takes its place.
    fn remove(&mut self, pods: &mut Vec<Pod>, uid: &Uid) {
        let Some(place) = self.find(pods, uid) else { return };
        pods.swap_remove(place);
        self.0.remove(uid);
        if let Some(moved) = pods.get(place) {
            self.0.insert(moved.uid.clone(), place);
        }
    }
}

/// A job.
#[derive(Clone, Debug)]
pub struct Job {
    /// The metadata, with the version that `status` is of.
    pub meta: Meta,
    /// The name of the controller that manages the job. `None` if it is this one.
    pub managed_by_other: Option<ArcStr>,
    /// What the spec asks for.
    pub wanted: Wanted,
    /// The stored status.
    pub status: Status,
    /// The template of the job's pods.
    pub template: Opaque,
}

/// What a sync does at most once, and what it has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Nothing more is to do: the refusal has been announced, or the job is gone.
    pub all: bool,
    /// A live read has shown that the job may adopt.
    pub alive: bool,
    /// Pods were created or deleted.
    pub pods: bool,
    /// The API server creates no pods, because the namespace is being deleted. The job waits for its own deletion.
    pub namespace_ends: bool,
    /// A step failed. The runner syncs the job again after its back-off.
    pub failed: bool,
    /// A status was written, with the pods that had finished.
    pub entered: bool,
    /// Finalizers were removed.
    pub released: bool,
}

/// A group of fields of a synced job.
///
/// # Panics
/// If the controller does not keep the group.
pub(super) fn group<G: Group<Kind = CachedJob>>(job: &CachedJob) -> &G {
    G::of(job).expect("the groups that the job controller reads must be kept")
}

impl Observed {
    /// What was found of a job. `remembered` is the job's back-off, if this process has counted any of its pods.
    pub(super) fn of(
        family: &Family<SyncedJob>,
        remembered: Option<Backoff>,
        suspension: Suspension,
    ) -> Self {
        let (job, spec) = (&family.owner, group::<JobSpec>(&family.owner));
        let (wanted, refusal) = match Wanted::of(spec) {
            Ok(wanted) => (wanted, None),
            Err(refusal) => (Wanted::default(), Some(refusal)),
        };
        let status = Status::of(group::<JobStatus>(job));
        let children = family.children.iter();
        let pods: Vec<Pod> =
            children.map(|(pod, claim)| Pod::of(pod, *claim, family.has_gone(pod.meta(), *claim))).collect();
        Self {
            backoff: remembered.unwrap_or_else(|| Backoff::recall(&status, &pods)),
            job: Job {
                meta: job.meta().clone(),
                managed_by_other: spec.managed_by_other().cloned(),
                wanted,
                status,
                template: group::<JobTemplate>(job).template.clone(),
            },
            refusal,
            pods,
            grounds: family.grounds,
            suspension,
            done: Done::default(),
            rest: None,
            action: OnceLock::new(),
            places: Places::default(),
        }
    }

    /// The pods that the job owns.
    pub(super) fn owned(&self) -> impl Iterator<Item = &Pod> + Clone {
        self.pods.iter().filter(|pod| pod.claim == Claim::Owned)
    }

    /// Whether the sync found nothing to decide, and no later sync will: another controller manages the job, or the job had
    /// finished before.
    pub(super) fn is_settled(&self) -> bool {
        self.job.managed_by_other.is_some() || self.job.status.is_finished() && !self.done.entered
    }

    /// Whether the metrics count the sync: not if the controller refuses the job, nor if the job is settled.
    pub(super) fn counts(&self) -> bool {
        self.refusal.is_none() && !self.is_settled()
    }

    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Outcome>) {
        match &step {
            Step::Create { .. } | Step::Discard(_) | Step::Delete(_) => self.done.pods = true,
            Step::Release(_) | Step::Ignore(_) => self.done.released = true,
            Step::Refuse(_) => self.done.all = true,
            _ => {}
        }
        let outcome = match result {
            StepResult::Done(outcome) => outcome,
            StepResult::Failed(_) => return self.done.failed = true,
            StepResult::Skipped => return,
        };
        match (step, outcome) {
            (Step::Confirm, Outcome::Reread(Some(observed))) => *self = *observed,
            (Step::Confirm, _) => self.done.all = true,
            (Step::CheckAlive, _) => self.done.alive = true,
            (Step::Create { .. }, Outcome::Created(pod)) => self.pods.push(*pod),
            (Step::Create { .. }, Outcome::NamespaceEnds) => self.done.namespace_ends = true,
            (Step::WriteStatus(write), Outcome::Written(version)) => {
                self.job.status = write.is;
                self.job.meta.resource_version = version;
                self.backoff = write.backoff;
                self.rest = Some(write.rest);
                self.done.entered = true;
            }
            (Step::Disown(pod), _)
            | (Step::Adopt(pod) | Step::Discard(pod) | Step::Delete(pod), Outcome::Gone) => {
                self.places.remove(&mut self.pods, &pod.uid);
            }
            (
                step @ (Step::Adopt(_)
                | Step::Discard(_)
                | Step::Delete(_)
                | Step::Release(_)
                | Step::Ignore(_)),
                _,
            ) => self.change(&step),
            (Step::Create { .. } | Step::Refuse(_) | Step::WriteStatus(_), _) => {}
        }
    }

    fn change(&mut self, step: &Step) {
        let (Step::Adopt(pod)
        | Step::Discard(pod)
        | Step::Delete(pod)
        | Step::Release(pod)
        | Step::Ignore(pod)) = step
        else {
            return;
        };
        let Some(place) = self.places.find(&self.pods, &pod.uid) else { return };
        let pod = &mut self.pods[place];
        match step {
            Step::Adopt(_) => (pod.claim, pod.tracked) = (Claim::Owned, true),
            Step::Discard(_) => (pod.deletion, pod.tracked) = (Deletion::JustAsked, false),
            Step::Delete(_) => pod.deletion = Deletion::JustAsked,
            _ => pod.tracked = false,
        }
    }
}
