//! What is known of a job during a sync.

use std::sync::OnceLock;

use steersman_api::Meta;
use steersman_informer::wire::Opaque;

use super::backoff::Backoff;
use super::metrics::Action;
use super::plan::{Outcome, Step};
use super::pods::{Claim, Deletion, Pod};
use super::status::Status;
use super::wanted::{Completions, Refusal, Wanted};
use steersman_controller::controller::StepResult;

/// All that policy looks at: a job and its pods as they were found, and as this sync has changed them since.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The job.
    pub job: Job,
    /// Set instead of doing anything.
    pub refusal: Option<Refusal>,
    /// The pods that it owns, or could own.
    pub pods: Vec<Pod>,
    /// From the failures that the status has counted.
    pub backoff: Backoff,
    /// Whether it may be acted upon.
    pub grounds: Grounds,
    /// What this sync has done already.
    pub done: Done,
    /// What the sync counts as in the metrics: set by its first decision about pods, unset before.
    pub(super) action: OnceLock<Action>,
}

/// A job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its metadata, with the version that `status` is of.
    pub meta: Meta,
    /// What is asked for.
    pub wanted: Wanted,
    /// As it is stored.
    pub status: Status,
    /// What its pods are made from.
    pub template: Opaque,
}

/// What an observation is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grounds {
    /// It shows everything that was written on behalf of the job, by whomever: one may act on it.
    Sure,
    /// Another process may have written on behalf of the job before this one began to lead, and no cache can be held
    /// against what it wrote. The job must be read anew before anything is done.
    Unsure,
}

/// What a sync does once at the most, and what it has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// There is nothing more to do: the refusal is told, or the job is gone.
    pub all: bool,
    /// The job was found alive by a live read: it may adopt.
    pub alive: bool,
    /// Pods were made or deleted.
    pub pods: bool,
    /// The API server makes no pod, since the namespace is being deleted. The job waits for its own deletion.
    pub namespace_ends: bool,
    /// A step failed: the sync comes again after its back-off.
    pub failed: bool,
    /// A status was written, with the pods that had finished.
    pub entered: bool,
    /// Finalizers were taken off.
    pub released: bool,
}

impl Observed {
    /// The pods that are the job's own.
    pub(super) fn owned(&self) -> impl Iterator<Item = &Pod> + Clone {
        self.pods.iter().filter(|pod| pod.claim == Claim::Owned)
    }

    /// How many pods must succeed, for the metrics; `None` for a refused job, whose syncs no metric counts.
    pub(super) fn counted_completions(&self) -> Option<Completions> {
        self.refusal.is_none().then_some(self.job.wanted.completions)
    }

    /// Takes in what came of a step.
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Outcome>) {
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
