//! What a sync knows of a job and its pods.

use steersman_api::{ArcStr, Meta};
use steersman_informer::wire::{Group, Object, Opaque};

use super::SyncedJob;
use super::backoff::Backoff;
use super::metrics::Action;
use super::plan::{Outcome, Step};
use super::pods::{Deletion, Pod};
use super::status::Status;
use super::wanted::{Completions, Refusal, Wanted};
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
    /// What this sync has done already.
    pub done: Done,
    /// The metrics' label for this sync. `None` until a step tells it.
    pub(super) action: Option<Action>,
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
    pub(super) fn of(family: &Family<SyncedJob>, remembered: Option<Backoff>) -> Self {
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
            done: Done::default(),
            action: None,
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

    /// How many pods must succeed, for the metrics. `None` if no metric counts the sync: the controller refuses the job, or
    /// the job is settled.
    pub(super) fn counted_completions(&self) -> Option<Completions> {
        (self.refusal.is_none() && !self.is_settled()).then_some(self.job.wanted.completions)
    }

    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Outcome>) {
        // Pods are managed once a sync: the first step tells what the sync did about them.
        self.action = self.action.or(step.action());
        match &step {
            Step::Create { .. } | Step::Discard(_) | Step::Delete(_) => self.done.pods = true,
            Step::Release(_) => self.done.released = true,
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
                self.done.entered = true;
            }
            (Step::Disown(pod), _)
            | (Step::Adopt(pod) | Step::Discard(pod) | Step::Delete(pod), Outcome::Gone) => {
                self.pods.retain(|other| other.uid != pod.uid);
            }
            (step @ (Step::Adopt(_) | Step::Discard(_) | Step::Delete(_) | Step::Release(_)), _) => {
                self.change(&step);
            }
            (Step::Create { .. } | Step::Refuse(_) | Step::WriteStatus(_), _) => {}
        }
    }

    fn change(&mut self, step: &Step) {
        let (Step::Adopt(pod) | Step::Discard(pod) | Step::Delete(pod) | Step::Release(pod)) = step else {
            return;
        };
        let Some(pod) = self.pods.iter_mut().find(|other| other.uid == pod.uid) else { return };
        match step {
            Step::Adopt(_) => (pod.claim, pod.tracked) = (Claim::Owned, true),
            Step::Discard(_) => (pod.deletion, pod.tracked) = (Deletion::JustAsked, false),
            Step::Delete(_) => pod.deletion = Deletion::JustAsked,
            _ => pod.tracked = false,
        }
    }
}
