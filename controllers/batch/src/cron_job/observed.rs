//! What a sync knows of a CronJob and its jobs.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ObjectReference;
use steersman_api::condition::ConditionStatus;
use steersman_api::{ArcStr, Meta, Time, Uid};
use steersman_controller::children::{Family, Grounds};
use steersman_controller::controller::StepResult;
use steersman_informer::wire::{Group, Object};
use steersman_kinds::cron_job::{CronJobSpec, CronJobStatus};
use steersman_kinds::job::{Job as CachedJob, JobStatus};

use super::SyncedCronJob;
use super::plan::{Outcome, Step};
use super::schedule::Zones;
use super::status::Status;
use super::timing::{Timetable, timetable};

/// A CronJob and its jobs as they were found, and what this sync has done since.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The metadata, with the version that `status` is of.
    pub meta: Meta,
    /// The spec without the template of the jobs.
    pub spec: CronJobSpec,
    /// The spec's schedule.
    pub timetable: Timetable,
    /// The stored status.
    pub status: Status,
    /// The jobs that the CronJob owns.
    pub jobs: Vec<Job>,
    /// Whether the controller may act on this.
    pub grounds: Grounds,
    /// What the sync has done already.
    pub done: Done,
}

/// A job of a CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// The job's name.
    pub name: ArcStr,
    /// Tells the job from other jobs of that name.
    pub uid: Uid,
    /// Whether the job is being deleted.
    pub deleting: bool,
    /// How the job ended. `None` if it has not.
    pub end: Option<End>,
    /// When the job became active.
    pub started: Option<Time>,
    /// When the job completed.
    pub completed: Option<Time>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    Failed,
}

impl End {
    /// The type of the condition that says so.
    pub(super) fn condition(self) -> &'static str {
        match self {
            Self::Complete => "Complete",
            Self::Failed => "Failed",
        }
    }
}

/// What a sync does at most once, and what it has found out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Done {
    /// The CronJob is gone.
    pub gone: bool,
    /// Jobs beyond the limits of the history were deleted.
    pub cleaned: bool,
    /// Events about this sync's decisions were recorded.
    pub announced: bool,
    /// The job that is due was created, or could not be.
    pub ran: bool,
    /// The jobs that this sync has deleted.
    pub deleted: BTreeSet<Uid>,
    /// The active jobs that the cache lacks and the API server has: it said so, or this sync has created them.
    pub found: BTreeSet<Uid>,
    /// The active jobs that do not exist.
    pub missing: BTreeSet<Uid>,
    /// The job of the run that was due, and that run.
    pub created: Option<(ObjectReference, Time)>,
}

/// Reads a group of fields that the controller keeps.
pub(super) fn group<G: Group>(object: &G::Kind) -> &G {
    G::of(object).expect("the groups that the controller reads must be kept")
}

impl Job {
    /// Reads a job of a cache or an answer.
    pub(super) fn of(job: &CachedJob) -> Self {
        let (meta, status) = (job.meta(), group::<JobStatus>(job));
        let end = status.conditions.iter().find_map(|condition| match &*condition.kind {
            _ if condition.status != ConditionStatus::True => None,
            "Complete" => Some(End::Complete),
            "Failed" => Some(End::Failed),
            _ => None,
        });
        Self {
            name: meta.key.name.clone(),
            uid: meta.uid.clone(),
            deleting: meta.is_deleting(),
            end,
            started: status.start_time,
            completed: status.completion_time,
        }
    }
}

impl Observed {
    pub(super) fn of(family: &Family<SyncedCronJob>, zones: &Zones) -> Self {
        let (owner, spec) = (&family.owner, group::<CronJobSpec>(&family.owner).clone());
        let here = family.children.iter().filter(|(job, claim)| !family.has_gone(job.meta(), *claim));
        Self {
            meta: owner.meta().clone(),
            timetable: timetable(&spec, zones),
            spec,
            status: Status::of(group::<CronJobStatus>(owner)),
            jobs: here.map(|(job, _)| Job::of(job)).collect(),
            grounds: family.grounds,
            done: Done::default(),
        }
    }

    /// The time from which runs count: the last scheduled run, or the creation of the CronJob.
    pub(super) fn base(&self) -> Time {
        let run = self.done.created.as_ref().map(|(_, run)| *run);
        let created = self.meta.created.unwrap_or(Time::from_seconds(0));
        run.or(self.status.last_schedule_time).unwrap_or(created)
    }

    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Outcome>) {
        match (step, result) {
            (Step::Confirm, StepResult::Done(Outcome::Observed(observed))) => match observed {
                Some(observed) => *self = *observed,
                None => self.done.gone = true,
            },
            (Step::Prune(job), result) => {
                self.done.cleaned = true;
                if let StepResult::Done(_) = result {
                    self.done.deleted.insert(job.uid);
                }
            }
            (Step::Replace(job), StepResult::Done(_)) => _ = self.done.deleted.insert(job.uid),
            (Step::LookUp(job), StepResult::Done(Outcome::Found)) => _ = self.done.found.insert(job.uid),
            (Step::LookUp(job), StepResult::Done(Outcome::Gone)) => _ = self.done.missing.insert(job.uid),
            (Step::Announce(_), _) => self.done.announced = true,
            (Step::Create(run), result) => {
                self.done.ran = true;
                if let StepResult::Done(Outcome::Created(job)) = result {
                    self.done.found.insert(job.uid.as_deref().unwrap_or_default().into());
                    self.done.created = Some((*job, run));
                }
            }
            (Step::Replace(_), _) => self.done.ran = true,
            (Step::WriteStatus(write), StepResult::Done(Outcome::Written(version))) => {
                self.meta.resource_version = version;
                self.done.created = None;
                self.status = write.status;
            }
            (Step::WriteStatus(_), StepResult::Done(Outcome::Gone)) => self.done.gone = true,
            _ => {}
        }
    }
}
