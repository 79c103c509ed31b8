//! Which CronJobs must be synced after a change, and when.

use std::sync::{Arc, Weak};

use steersman_api::ObjectKey;
use steersman_client::events::Recorder;
use steersman_controller::children::Children;
use steersman_controller::context::Clock;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, View};
use steersman_kinds::cron_job::{CronJobSpec, CronJobStatus};
use steersman_kinds::job::JobStatus;

use super::plan::Announcement;
use super::schedule::Zones;
use super::timing::{Fault, timetable, wait};
use super::{ScheduledJob, SyncedCronJob};

/// Turns changes into keys of the queue.
pub(super) struct Mapping {
    /// Weak, since the informers hold the mapping, and the children hold the informers.
    pub children: Weak<Children<SyncedCronJob>>,
    pub queue: WorkQueue<ObjectKey>,
    pub recorder: Recorder,
    pub clock: Clock,
    pub zones: Arc<Zones>,
}

impl Mapping {
    /// Queues a CronJob. One with a new schedule waits for the schedule's next run: runs that would have been due before the
    /// change are not made up for.
    pub(super) fn cron_job_changed(&self, change: &Change<SyncedCronJob>) {
        let key = change.key();
        self.queue.wake(key);
        match change {
            Change::Updated { old, new } if timing_differs(old, new) => self.reschedule(new),
            _ => self.queue.add(key.clone()),
        }
    }

    /// Queues the CronJob of a job that appears, ends or goes. The other changes of a job concern no CronJob.
    pub(super) fn job_changed(&self, change: &Change<ScheduledJob>) {
        let Some(children) = self.children.upgrade() else { return };
        let concerns = match change {
            Change::Updated { old, new } => {
                let (was, is) = (old.get::<JobStatus>(), new.get::<JobStatus>());
                old.meta().controller() != new.meta().controller()
                    || old.meta().is_deleting() != new.meta().is_deleting()
                    || was.is_finished() != is.is_finished()
                    || was.completion_time != is.completion_time
            }
            _ => true,
        };
        children.child_changed(change, &|cron_job| {
            self.queue.wake(cron_job);
            if concerns {
                self.queue.add(cron_job.clone());
            }
        });
    }

    fn reschedule(&self, cron_job: &View<SyncedCronJob>) {
        let (meta, spec) = (cron_job.meta(), cron_job.get::<CronJobSpec>());
        let last = cron_job.get::<CronJobStatus>().last_schedule_time;
        let now = self.clock.timestamp();
        match timetable(spec, &self.zones) {
            Ok(schedule) => {
                let base = last.or(meta.created).unwrap_or(now.into());
                self.queue.add_after(meta.key.clone(), wait(&schedule, base, now).unwrap_or_default());
            }
            // A sync says so.
            Err(Fault::Zone(_)) => self.queue.add(meta.key.clone()),
            Err(Fault::Schedule(_)) => {
                Announcement::UnParseableCronJobSchedule(spec.schedule.to_string())
                    .record(&self.recorder, meta);
            }
        }
    }
}

fn timing_differs(old: &View<SyncedCronJob>, new: &View<SyncedCronJob>) -> bool {
    let (old, new) = (old.get::<CronJobSpec>(), new.get::<CronJobSpec>());
    old.schedule != new.schedule || old.time_zone != new.time_zone
}
