//! The situations of upstream's tests `TestControllerV2SyncCronJob`, `TestControllerV2CleanupFinishedJobs` and
//! `TestMostRecentScheduleTime` that a user can meet, and more.

mod active_jobs;
mod created_job;
mod schedules;

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1::ObjectReference;
use steersman_api::{Meta, ObjectKey, ResourceVersion, Time};
use steersman_controller::children::Grounds;
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;
use steersman_kinds::cron_job::CronJobSpec;

use super::observed::{Done, End, Job, Observed};
use super::plan::{Outcome, Step, plan};
use super::schedule::Zones;
use super::status::Status;
use super::timing::timetable;

const CREATED: [&str; 2] = ["create 10:00", "active [new]"];
const NOTHING: [&str; 0] = [];

fn at(text: &str) -> Time {
    text.parse::<Timestamp>().unwrap().into()
}

/// A CronJob that runs each hour, was created at 08:59 and has no jobs.
fn hourly() -> Observed {
    cron_job("0 * * * *", None)
}

fn cron_job(schedule: &str, time_zone: Option<&str>) -> Observed {
    let spec = CronJobSpec {
        schedule: schedule.into(),
        time_zone: time_zone.map(Into::into),
        concurrency_policy: "Allow".into(),
        successful_jobs_history_limit: Some(3),
        failed_jobs_history_limit: Some(1),
        ..CronJobSpec::default()
    };
    Observed {
        meta: Meta {
            key: ObjectKey::new("ns", "backup"),
            uid: "cj".into(),
            created: Some(at("2026-05-19T08:59:00Z")),
            ..Meta::default()
        },
        timetable: timetable(&spec, &Zones::with_local(TimeZone::UTC)),
        spec,
        status: Status::default(),
        jobs: Vec::new(),
        grounds: Grounds::Sure,
        done: Done::default(),
    }
}

fn running(name: &str) -> Job {
    Job {
        name: name.into(),
        uid: name.into(),
        deleting: false,
        end: None,
        started: Some(at("2026-05-19T09:00:00Z")),
        completed: None,
    }
}

fn ended(name: &str, end: End, started: &str) -> Job {
    let completed = (end == End::Complete).then(|| at(started));
    Job { end: Some(end), started: Some(at(started)), completed, ..running(name) }
}

fn reference(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        namespace: Some("ns".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

impl Observed {
    fn policy(mut self, policy: &str) -> Self {
        self.spec.concurrency_policy = policy.into();
        self
    }

    fn deadline(mut self, seconds: i64) -> Self {
        self.spec.starting_deadline_seconds = Some(seconds);
        self
    }

    fn ran(mut self, last: &str) -> Self {
        self.status.last_schedule_time = Some(at(last));
        self
    }

    /// With this job, which is in the list of active jobs.
    fn active(mut self, job: Job) -> Self {
        self.status.active.push(reference(&job.name));
        self.jobs.push(job);
        self
    }

    fn job(mut self, job: Job) -> Self {
        self.jobs.push(job);
        self
    }
}

/// All steps of a sync that succeed, in words, and the wait at its end.
fn sync(mut observed: Observed, now: &str) -> (Vec<String>, Option<Duration>) {
    let (now, mut done): (Timestamp, _) = (now.parse().unwrap(), Vec::new());
    for _ in 0..20 {
        let batch = match plan(&observed, now) {
            Plan::Done { requeue_after } => return (done, requeue_after),
            Plan::Act(batch) => batch,
        };
        for step in batch.steps {
            let outcome = match &step {
                Step::Create(_) => Outcome::Created(Box::new(reference("new"))),
                Step::LookUp(_) => Outcome::Gone,
                Step::WriteStatus(_) => Outcome::Written(ResourceVersion(7)),
                _ => Outcome::Done,
            };
            done.extend(words(&step));
            observed.absorb(step, StepResult::Done(outcome));
        }
    }
    panic!("the sync does not end: {done:?}");
}

fn words(step: &Step) -> Vec<String> {
    let clock = |time: &Time| time.to_string()[11..16].to_owned();
    match step {
        Step::Confirm => vec!["confirm".to_owned()],
        Step::Prune(job) => vec![format!("prune {}", job.key.name)],
        Step::LookUp(job) => vec![format!("look up {}", job.key.name)],
        Step::Announce(all) => all.iter().map(|event| format!("event: {event}")).collect(),
        Step::Replace(job) => vec![format!("delete {}", job.key.name)],
        Step::Create(run) => vec![format!("create {}", clock(run))],
        Step::WriteStatus(write) => {
            let active = write.status.active.iter().map(|job| job.name.clone().unwrap());
            let mut told: Vec<_> =
                write.announcements.iter().map(|event| format!("event: {event}")).collect();
            told.push(format!("active [{}]", active.collect::<Vec<_>>().join(" ")));
            told
        }
    }
}

fn steps(observed: Observed, now: &str) -> Vec<String> {
    sync(observed, now).0
}
