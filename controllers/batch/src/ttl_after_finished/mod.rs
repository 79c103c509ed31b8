//! The TTL-after-finished controller: deletes finished jobs a while after their end, as `ttlSecondsAfterFinished` asks.
//!
//! ```text
//! changes of finished jobs with a TTL ─> queue "ttl_jobs_to_delete" ─> observe ─> plan: wait, or read and delete
//! ```
//!
//! The delays of the queue are the only timer. As upstream's.

use std::sync::Arc;

use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::{Change, View, keep};
use steersman_kinds::job::{Job, JobStatus, JobTtl};

mod controller;
mod metrics;
mod plan;
#[cfg(test)]
mod tests;

/// The row of the controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("ttl-after-finished-controller", &["ttl-after-finished"], construct)
        .options::<TtlAfterFinishedOptions>()
        .rules(&[Rule::new(&["batch"], &["jobs"], &["get", "list", "watch", "delete"])]);

options! {
    /// Settings of the TTL-after-finished controller.
    pub struct TtlAfterFinishedOptions("TTLAfterFinishedController") {
        /// How many finished jobs are synced at a time
        pub concurrent_syncs: Workers = Workers(5), "concurrent-ttl-after-finished-syncs", "ConcurrentTTLSyncs";
    }
}

keep! {
    /// What the controller reads of a job.
    pub struct FinishedJob: Job => JobTtl, JobStatus
}

/// Makes the controller.
///
/// # Errors
/// The cache runs already without the fields that the controller reads, or its metrics are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let metrics = metrics::Metrics::new();
    metrics.register(&context.metrics)?;
    let jobs = context.informers.informer::<FinishedJob>()?;
    let queue = context.queue("ttl_jobs_to_delete");
    let keys = queue.clone();
    jobs.map(move |change| match change {
        Change::Added { object: job, .. }
        | Change::Updated { new: job, .. }
        | Change::Resync { object: job }
            if may_expire(job) =>
        {
            keys.add(change.key().clone());
        }
        _ => {}
    });
    let controller = controller::TtlController {
        jobs: jobs.lister(),
        client: Client::keeping::<FinishedJob>(context.client_for("ttl-after-finished-controller")),
        metrics,
        clock: context.clock.clone(),
    };
    let workers = context.options::<TtlAfterFinishedOptions>().concurrent_syncs.0;
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(workers).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [jobs.any()]))
}

fn may_expire(job: &View<FinishedJob>) -> bool {
    !job.meta().is_deleting()
        && job.get::<JobTtl>().ttl_seconds_after_finished.is_some()
        && job.get::<JobStatus>().is_finished()
}
