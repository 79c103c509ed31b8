//! Syncs of CronJobs: where observations come from, and how steps are carried out.

use std::sync::Arc;

use steersman_api::selector::InvalidSelector;
use steersman_api::{LabelSelector, Meta, ObjectKey, Time};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::children::{Children, Family, Owns, Sight};
use steersman_controller::client::{
    Created, Delete, Deleted, Propagation, StatusChange, StatusWriter, controller_reference, event_reference,
};
use steersman_controller::context::Clock;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::own_writes::Awaited;
use steersman_controller::plan::Plan;
use steersman_informer::wire::Object;
use steersman_kinds::cron_job::{CronJob, CronJobStatus, CronJobTemplate};
use steersman_kinds::job::Job as CachedJob;

use super::job::{self, JobDraft};
use super::metrics::Metrics;
use super::observed::{Observed, group};
use super::plan::{Announcement, JobRef, Outcome, StatusWrite, Step, plan};
use super::schedule::Zones;
use super::status::Status;
use super::{ScheduledJob, SyncedCronJob};

/// Starts the jobs of CronJobs.
pub(super) struct CronJobController {
    pub children: Arc<Children<SyncedCronJob>>,
    pub status: StatusWriter<CronJob>,
    pub recorder: Recorder,
    pub metrics: Metrics,
    pub clock: Clock,
    pub zones: Arc<Zones>,
}

impl Owns for SyncedCronJob {
    type Child = ScheduledJob;

    const BY_REFERENCE_ONLY: bool = true;

    fn selector(_: &CronJob) -> Result<LabelSelector, InvalidSelector> {
        Ok(LabelSelector::everything())
    }

    fn is_untouched(cron_job: &CronJob) -> bool {
        Status::of(group::<CronJobStatus>(cron_job)) == Status::default()
    }
}

impl Announcement {
    /// The event's type and reason.
    fn event(&self) -> (EventType, &'static str) {
        match self {
            Self::SawCompletedJob { .. } => (EventType::Normal, "SawCompletedJob"),
            Self::UnexpectedJob(_) => (EventType::Warning, "UnexpectedJob"),
            Self::MissingJob(_) => (EventType::Normal, "MissingJob"),
            Self::UnknownTimeZone { .. } => (EventType::Warning, "UnknownTimeZone"),
            Self::UnsupportedSchedule(_) => (EventType::Warning, "UnsupportedSchedule"),
            Self::UnparseableSchedule { .. } => (EventType::Warning, "UnparseableSchedule"),
            Self::UnParseableCronJobSchedule(_) => (EventType::Warning, "UnParseableCronJobSchedule"),
            Self::InvalidSchedule { .. } => (EventType::Warning, "InvalidSchedule"),
            Self::TooManyMissedTimes => (EventType::Warning, "TooManyMissedTimes"),
            Self::JobAlreadyActive => (EventType::Normal, "JobAlreadyActive"),
        }
    }

    /// Records the event.
    pub(super) fn record(&self, recorder: &Recorder, cron_job: &Meta) {
        let (kind, reason) = self.event();
        recorder.event(&event_reference::<CronJob>(cron_job), kind, reason, self.to_string());
    }
}

impl CronJobController {
    fn observed(&self, family: &Family<SyncedCronJob>) -> Observed {
        Observed::of(family, &self.zones)
    }

    /// Creates the job of a run. If the CronJob has that job already, the job counts as created: an earlier sync may not have
    /// been able to write the status.
    async fn create(&self, observed: &Observed, run: Time) -> Result<Outcome, SyncError> {
        let meta = &observed.meta;
        let key = ObjectKey::new(meta.key.namespace.clone(), job::name(&meta.key.name, run));
        let created = self.create_now(observed, &key, run).await;
        let refused = |error: &SyncError| {
            let why = error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
            self.warn(meta, "FailedCreate", format!("Error creating job: {why}"), error);
        };
        match created.inspect_err(refused)? {
            Created::Now(job) => {
                let created = job.meta().created.unwrap_or(run);
                self.metrics.creation_skew.observe(created.since(run).as_secs_f64());
                let message = format!("Created job {}", key.name);
                let involved = event_reference::<CronJob>(meta);
                self.recorder.event(&involved, EventType::Normal, "SuccessfulCreate", message);
                Ok(Outcome::Created(Box::new(event_reference::<CachedJob>(job.meta()))))
            }
            Created::NamespaceTerminating => Ok(Outcome::NotCreated),
            Created::Exists(status) => match self.children.child_client().get(&key).await? {
                Some(job) if job.meta().is_controlled_by(&meta.uid) => {
                    Ok(Outcome::Created(Box::new(event_reference::<CachedJob>(job.meta()))))
                }
                Some(_) => {
                    tracing::info!(job = %key, "Another object owns the job of this run");
                    Ok(Outcome::NotCreated)
                }
                None => Err(SyncError::Refused { what: format!("creating job {key}"), status }),
            },
        }
    }

    async fn create_now(
        &self,
        observed: &Observed,
        key: &ObjectKey,
        run: Time,
    ) -> Result<Created<CachedJob>, SyncError> {
        let failed = |why: String| SyncError::Failed(format!("creating job {key}: {why}"));
        let owner = &observed.meta;
        let cron_job = self.children.owners().get(&owner.key);
        let cron_job = cron_job.map_err(|error| SyncError::Unreadable(error.to_string()))?;
        let cron_job = cron_job.ok_or_else(|| failed("the CronJob is gone".to_owned()))?;
        let zone = observed.spec.time_zone.as_deref().unwrap_or_default();
        let zone = self.zones.load(zone).map_err(|error| failed(error.to_string()))?;
        let draft = JobDraft {
            name: key.name.clone(),
            owner: controller_reference::<CronJob>(owner),
            scheduled: job::stamp(run, &zone),
        };
        let content = draft.fill_in(&cron_job.get::<CronJobTemplate>().job_template);
        let content = content.map_err(|error| failed(error.to_string()))?;
        let create = self.children.child_client().create(&key.namespace, content);
        self.children.own_writes().write(&owner.key, create).await
    }

    async fn delete(&self, cron_job: &Meta, job: &JobRef) -> Result<Outcome, SyncError> {
        let delete = Delete { propagation: Some(Propagation::Background), ..Delete::of(&job.uid) };
        let delete = self.children.child_client().delete(&job.key, &delete);
        let deleted =
            self.children.own_writes().remove::<CachedJob, _>(&cron_job.key, &job.uid, delete).await;
        let failed = |error: &SyncError| {
            let why = error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
            self.warn(cron_job, "FailedDelete", format!("Deleted job: {why}"), error);
        };
        match deleted.inspect_err(failed)? {
            Deleted::Now(..) => {
                let (involved, message) =
                    (event_reference::<CronJob>(cron_job), format!("Deleted job {}", job.key.name));
                self.recorder.event(&involved, EventType::Normal, "SuccessfulDelete", message);
                Ok(Outcome::Done)
            }
            // Another job has the name now.
            Deleted::Gone | Deleted::Conflict(_) => Ok(Outcome::Gone),
        }
    }

    /// Records an event about a failed call, unless the call failed because this process does not lead.
    fn warn(&self, cron_job: &Meta, reason: &'static str, message: String, error: &SyncError) {
        if !error.is_end_of_leadership() {
            self.recorder.event(&event_reference::<CronJob>(cron_job), EventType::Warning, reason, message);
        }
    }

    async fn look_up(&self, job: &JobRef) -> Result<Outcome, SyncError> {
        let found = self.children.child_client().resource().get_meta(&job.key).await?;
        Ok(if found.is_some_and(|found| found.uid == job.uid) { Outcome::Found } else { Outcome::Gone })
    }

    async fn write_status(&self, observed: &Observed, write: &StatusWrite) -> Result<Outcome, SyncError> {
        let meta = &observed.meta;
        let Some(change) = StatusChange::between(meta, &observed.status, &write.status) else {
            return Ok(Outcome::Written(meta.resource_version));
        };
        let written = self.status.write(&meta.key, &change);
        let written = self.children.own_writes().write(&meta.key, written).await?;
        let written = written.or_conflict(|| format!("writing the status of CronJob {}", meta.key))?;
        if written.is_some() {
            write.announcements.iter().for_each(|announcement| announcement.record(&self.recorder, meta));
        }
        Ok(written.map_or(Outcome::Gone, |written| Outcome::Written(written.meta().resource_version)))
    }
}

impl Controller for CronJobController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    fn term_begins(&self) {
        self.children.term_begins();
    }

    fn awaited(&self, key: &ObjectKey) -> Vec<Awaited> {
        self.children.own_writes().awaited(key)
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        Ok(match self.children.observe(key).await? {
            Sight::Family(family) => Observation::Ready(self.observed(&family)),
            Sight::Absent => Observation::Nothing,
            Sight::Behind { at_most, .. } => Observation::Behind(at_most),
        })
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        // The wait until the next run goes by fractions of a second.
        plan(observed, self.clock.timestamp())
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        let meta = &observed.meta;
        match step {
            Step::Confirm => {
                let family = self.children.confirm(key).await?;
                Ok(Outcome::Observed(family.map(|family| Box::new(self.observed(&family)))))
            }
            Step::Prune(job) | Step::Replace(job) => self.delete(meta, job).await,
            Step::LookUp(job) => self.look_up(job).await,
            Step::Announce(announcements) => {
                announcements.iter().for_each(|announcement| announcement.record(&self.recorder, meta));
                Ok(Outcome::Done)
            }
            Step::Create(run) => self.create(observed, *run).await,
            Step::WriteStatus(write) => self.write_status(observed, write).await,
        }
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, result);
    }
}
