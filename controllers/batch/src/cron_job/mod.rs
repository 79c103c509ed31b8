//! The CronJob controller: starts jobs at the times of a schedule.
//!
//! ```text
//! changes of CronJobs and jobs ── mapping ──> queue "cronjob" ──> observe ─> plan ─> steps
//!                                                 └─ again at the next run (timing, schedule)
//!
//! plan: history ─> lookups of lost jobs ─> what is due, and what is against it ─> status
//! ```
//!
//! As upstream's. Unlike it:
//! - the run that is due, and the number of missed ones, are exact, where upstream estimates them from the gap between two
//!   runs. In upstream a run with uneven gaps can get lost;
//! - the runs of `@every` count from the last run also if there is a `startingDeadlineSeconds`. Upstream counts from the
//!   deadline then, so that a job with a deadline shorter than its delay never runs;
//! - a day whose midnight the clock skips, or shows twice, has its runs (see `schedule`);
//! - jobs are deleted by uid, and those that are being deleted already are not deleted again;
//! - the job of a run whose status could not be written is taken for that run's. Upstream means to, but looks for the job without
//!   its namespace, so that its syncs fail until the next run;
//! - a run whose job's name another object has does not end the schedule. In upstream the CronJob then waits for its next
//!   change;
//! - the event `MissSchedule` does not occur. Upstream has code for it, which is not reached.

use std::sync::Arc;

use steersman_controller::children::Children;
use steersman_controller::client::StatusWriter;
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::keep;
use steersman_kinds::cron_job::{CronJob, CronJobSpec, CronJobStatus, CronJobTemplate};
use steersman_kinds::job::{Job, JobStatus};

mod controller;
mod job;
mod mapping;
mod metrics;
mod observed;
mod plan;
mod schedule;
mod status;
#[cfg(test)]
mod tests;
mod timing;

use schedule::Zones;

/// The row of the CronJob controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("cronjob-controller", &["cronjob"], construct).options::<CronJobOptions>().rules(&[
        Rule::new(&["batch"], &["cronjobs"], &["get", "list", "watch"]),
        Rule::new(&["batch"], &["cronjobs/status"], &["patch"]).because(
            "Kubernetes's own role has update instead, which the controller uses where it may not patch.",
        ),
        Rule::new(&["batch"], &["cronjobs/finalizers"], &["update"])
            .because("Jobs name their CronJob as an owner that may not go before them."),
        Rule::new(&["batch"], &["jobs"], &["get", "list", "watch", "create", "delete"]),
    ]);

options! {
    /// Settings of the CronJob controller.
    pub struct CronJobOptions("CronJobController") {
        /// How many CronJobs are synced at a time
        pub concurrent_syncs: Workers = Workers(5), "concurrent-cron-job-syncs", "ConcurrentCronJobSyncs";
    }
}

keep! {
    /// What the controller reads of a CronJob.
    pub struct SyncedCronJob: CronJob => CronJobSpec, CronJobTemplate, CronJobStatus
}

keep! {
    /// What the controller reads of a job.
    pub struct ScheduledJob: Job => JobStatus
}

/// The controller's name: of its client, and of the source of its events.
const NAME: &str = "cronjob-controller";

/// Makes the controller.
///
/// # Errors
/// The caches run already without the fields that the controller reads, or its metrics are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let metrics = metrics::Metrics::new();
    metrics.register(&context.metrics)?;
    let children = Arc::new(Children::<SyncedCronJob>::new(context, &context.client_for(NAME))?);
    let (queue, recorder, zones) =
        (context.queue("cronjob"), context.recorder(NAME), Arc::new(Zones::of_system()));
    let mapping = Arc::new(mapping::Mapping {
        children: Arc::downgrade(&children),
        queue: queue.clone(),
        recorder: recorder.clone(),
        clock: context.clock.clone(),
        zones: Arc::clone(&zones),
    });
    let of_jobs = Arc::clone(&mapping);
    let (cron_jobs, jobs) = children.informers();
    cron_jobs.map(move |change| mapping.cron_job_changed(change));
    jobs.map(move |change| of_jobs.job_changed(change));

    let caches = children.caches();
    let controller = controller::CronJobController {
        status: StatusWriter::new(children.owner_client().clone()),
        children,
        recorder,
        metrics,
        clock: context.clock.clone(),
        zones,
    };
    let workers = context.options::<CronJobOptions>().concurrent_syncs.0;
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(workers).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], caches))
}
