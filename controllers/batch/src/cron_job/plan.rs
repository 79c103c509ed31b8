//! What the controller does next about a CronJob.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use steersman_api::{ArcStr, ObjectKey, ResourceVersion, Time, Uid};
use steersman_controller::children::Grounds;
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

use super::job;
use super::observed::{End, Job, Observed};
use super::status::Status;
use super::timing::{self, Fault, Never};

/// An action of the controller.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Make sure that the observation shows what other processes have written.
    Confirm,
    /// Delete a job beyond the limits of the history.
    Prune(JobRef),
    /// Ask the API server whether an active job exists that the cache lacks.
    LookUp(JobRef),
    /// Record events.
    Announce(Vec<Announcement>),
    /// Delete an active job, so that the job which is due replaces it.
    Replace(JobRef),
    /// Create the job of this run.
    Create(Time),
    /// Write the status.
    WriteStatus(Box<StatusWrite>),
}

/// A new status.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StatusWrite {
    /// The status.
    pub status: Status,
    /// The events to record once the status is written.
    pub announcements: Vec<Announcement>,
}

/// Identifies a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobRef {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Tells the job from other jobs of that name.
    pub uid: Uid,
}

/// An event about a CronJob. The messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Announcement {
    #[error("Saw completed job: {job}, condition: {}", end.condition())]
    SawCompletedJob { job: ArcStr, end: End },
    #[error("Saw a job that the controller did not create or forgot: {0}")]
    UnexpectedJob(ArcStr),
    #[error("Active job went missing: {0}")]
    MissingJob(String),
    #[error("invalid timeZone: {zone:?}: {why}")]
    UnknownTimeZone { zone: String, why: Fault },
    #[error(
        "CRON_TZ or TZ used in schedule {0:?} is not officially supported, see https://kubernetes.io/docs/concepts/\
         workloads/controllers/cron-jobs/ for more details"
    )]
    UnsupportedSchedule(String),
    #[error("unparseable schedule: {schedule:?} : {why}")]
    UnparseableSchedule { schedule: String, why: Fault },
    #[error("unparseable schedule for cronjob: {0}")]
    UnParseableCronJobSchedule(String),
    #[error("invalid schedule: {schedule} : {why}")]
    InvalidSchedule { schedule: String, why: Never },
    #[error("too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")]
    TooManyMissedTimes,
    #[error("Not starting job because prior execution is running and concurrency policy is Forbid")]
    JobAlreadyActive,
}

/// The result of a step.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The step was done.
    Done,
    /// The object does not exist.
    Gone,
    /// The API server has the job.
    Found,
    /// The run has this job.
    Created(Box<ObjectReference>),
    /// The run has no job: the namespace is being deleted, or another object has the job's name.
    NotCreated,
    /// The status was written, and the CronJob has this version now.
    Written(ResourceVersion),
    /// The CronJob was observed anew. `None` if it is gone.
    Observed(Option<Box<Observed>>),
}

/// How many calls of a sync are under way at a time.
const AT_ONCE: usize = 8;

/// Decides on the next steps, in this order:
///
/// 1. finished jobs beyond the limits of the history are deleted, the oldest first;
/// 2. active jobs that the cache lacks are looked up;
/// 3. the job that is due is created, unless the policy for concurrent jobs or something else is against it; what is against
///    it is announced;
/// 4. the status is written if anything in it has changed, also after a failure of 1 or 3.
pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan<Step> {
    if observed.done.gone {
        return Plan::done();
    }
    let decision = decide(observed, now);
    let next = prune(observed)
        .or_else(|| look_up(observed))
        .or_else(|| announce(observed, &decision))
        .or_else(|| run(observed, &decision))
        .or_else(|| report(observed));
    match next {
        Some(_) if observed.grounds == Grounds::Unsure => Plan::step(Step::Confirm),
        Some(next) => next,
        None => Plan::Done { requeue_after: decision.requeue_after },
    }
}

fn batch(steps: Vec<Step>, on_failure: OnFailure) -> Option<Plan<Step>> {
    (!steps.is_empty()).then_some(Plan::Act(Batch { steps, pace: Pace::Together(AT_ONCE), on_failure }))
}

fn prune(observed: &Observed) -> Option<Plan<Step>> {
    if observed.done.cleaned {
        return None;
    }
    let beyond = |end: End, limit: Option<i32>| {
        let ended = observed.jobs.iter().filter(|job| job.end == Some(end) && !job.deleting);
        let mut ended: Vec<&Job> = ended.collect();
        // Jobs that never started are the last to go.
        ended.sort_by_key(|job| (job.started.is_none(), job.started, &job.name));
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(0));
        ended.truncate(ended.len().saturating_sub(limit));
        ended
    };
    let successful = beyond(End::Complete, observed.spec.successful_jobs_history_limit);
    let failed = beyond(End::Failed, observed.spec.failed_jobs_history_limit);
    let steps =
        successful.into_iter().chain(failed).map(|job| Step::Prune(observed.reference(job))).collect();
    batch(steps, OnFailure::PlanAgain)
}

fn look_up(observed: &Observed) -> Option<Plan<Step>> {
    let known: BTreeSet<&Uid> =
        observed.jobs.iter().map(|job| &job.uid).chain(&observed.done.found).collect();
    let unknown = current(observed).0.active.into_iter().map(|job| active(&job));
    let steps = unknown.filter(|job| !known.contains(&job.uid)).map(Step::LookUp).collect();
    batch(steps, OnFailure::Stop)
}

fn announce(observed: &Observed, decision: &Decision) -> Option<Plan<Step>> {
    if observed.done.announced {
        return None;
    }
    let active = current(observed).0.active;
    let unexpected = observed.jobs.iter().filter(|job| {
        let is_active = active.iter().any(|other| other.uid.as_deref() == Some(&job.uid.to_string()));
        job.end.is_none() && !job.deleting && !observed.done.deleted.contains(&job.uid) && !is_active
    });
    let unexpected = unexpected.map(|job| Announcement::UnexpectedJob(job.name.clone()));
    let all: Vec<Announcement> = unexpected.chain(decision.announcements.iter().cloned()).collect();
    (!all.is_empty()).then(|| Plan::step(Step::Announce(all)))
}

fn run(observed: &Observed, decision: &Decision) -> Option<Plan<Step>> {
    match &decision.action {
        _ if observed.done.ran => None,
        Action::Nothing => None,
        Action::Replace(jobs) => {
            batch(jobs.iter().cloned().map(Step::Replace).collect(), OnFailure::PlanAgain)
        }
        Action::Create(run) => {
            let steps = vec![Step::Create(*run)];
            Some(Plan::Act(Batch { steps, pace: Pace::InOrder, on_failure: OnFailure::PlanAgain }))
        }
    }
}

fn report(observed: &Observed) -> Option<Plan<Step>> {
    let (status, announcements) = current(observed);
    (status != observed.status)
        .then(|| Plan::step(Step::WriteStatus(Box::new(StatusWrite { status, announcements }))))
}

/// The status as the jobs and this sync's steps make it, with the events about its changes.
fn current(observed: &Observed) -> (Status, Vec<Announcement>) {
    let (mut status, mut announcements) = (observed.status.clone(), Vec::new());
    let done = &observed.done;
    status.active.retain(|reference| {
        let job = active(reference);
        if done.deleted.contains(&job.uid) {
            return false;
        }
        if done.missing.contains(&job.uid) {
            announcements.push(Announcement::MissingJob(job.key.name.to_string()));
            return false;
        }
        let ended = observed.jobs.iter().find(|other| other.uid == job.uid).and_then(|job| job.end);
        announcements.extend(ended.map(|end| Announcement::SawCompletedJob { job: job.key.name, end }));
        ended.is_none()
    });
    let completed = observed.jobs.iter().filter(|job| job.end == Some(End::Complete));
    status.last_successful_time =
        completed.filter_map(|job| job.completed).max().max(status.last_successful_time);
    if let Some((job, run)) = &done.created {
        if !status.active.iter().any(|other| other.uid == job.uid) {
            status.active.push(job.clone());
        }
        status.last_schedule_time = Some(*run);
    }
    (status, announcements)
}

/// What is to be done about the schedule.
struct Decision {
    announcements: Vec<Announcement>,
    action: Action,
    /// The wait until the next run. `None` if nothing runs until the CronJob changes.
    requeue_after: Option<std::time::Duration>,
}

enum Action {
    Nothing,
    Replace(Vec<JobRef>),
    Create(Time),
}

/// As upstream's `syncCronJob`, from the check for the CronJob's deletion on.
fn decide(observed: &Observed, now: Timestamp) -> Decision {
    let nothing = |announcements| Decision { announcements, action: Action::Nothing, requeue_after: None };
    let (spec, text) = (&observed.spec, observed.spec.schedule.to_string());
    if observed.meta.is_deleting() {
        return nothing(Vec::new());
    }
    if let Err(why @ Fault::Zone(_)) = &observed.timetable {
        let zone = spec.time_zone.as_deref().unwrap_or_default().to_owned();
        return nothing(vec![Announcement::UnknownTimeZone { zone, why: why.clone() }]);
    }
    if spec.suspend {
        return nothing(Vec::new());
    }
    let mut announcements = Vec::new();
    if timing::has_zone(&spec.schedule) {
        announcements.push(Announcement::UnsupportedSchedule(text.clone()));
    }
    let schedule = match &observed.timetable {
        Ok(schedule) => schedule,
        Err(why) => {
            announcements.push(Announcement::UnparseableSchedule { schedule: text, why: why.clone() });
            return nothing(announcements);
        }
    };
    let base = observed.base();
    let due = match timing::due(schedule, base, spec.starting_deadline_seconds, now.into()) {
        Ok(due) => due,
        Err(why) => {
            announcements.push(Announcement::InvalidSchedule { schedule: text, why });
            return nothing(announcements);
        }
    };
    let mut action = Action::Nothing;
    if let Some(due) = due {
        if due.too_many_missed {
            announcements.push(Announcement::TooManyMissedTimes);
        }
        let active_jobs: Vec<JobRef> = current(observed).0.active.iter().map(active).collect();
        let name = job::name(&observed.meta.key.name, due.run);
        let has_job = active_jobs.iter().any(|job| job.key.name == name);
        match &*spec.concurrency_policy {
            _ if has_job => {}
            "Forbid" if !active_jobs.is_empty() => announcements.push(Announcement::JobAlreadyActive),
            "Replace" if !active_jobs.is_empty() => action = Action::Replace(active_jobs),
            _ => action = Action::Create(due.run),
        }
    }
    Decision { announcements, action, requeue_after: timing::wait(schedule, base, now) }
}

impl Observed {
    fn reference(&self, job: &Job) -> JobRef {
        let key = ObjectKey::new(self.meta.key.namespace.clone(), job.name.clone());
        JobRef { key, uid: job.uid.clone() }
    }
}

/// The job that the status refers to.
fn active(job: &ObjectReference) -> JobRef {
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().to_owned();
    JobRef { key: ObjectKey::new(text(&job.namespace), text(&job.name)), uid: text(&job.uid).as_str().into() }
}
