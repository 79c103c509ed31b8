//! The job controller: runs pods until enough of them have succeeded.
//!
//! ```text
//! changes of jobs and pods ── mapping ──> queue "job" ──> JobController: observed ─> plan ─> steps
//!                                    └──> queue "job_orphan_pod" ──> OrphanController
//!
//! plan: claims ─> tally ─> verdict ─> manage (which pods) ─> ledger (which status, which finalizers)
//! ```
//!
//! Policy is in `plan`, and in one file for each part of it. It is a function of the state of a job and its pods alone, so
//! that a sync goes on where another one broke off, in this process or in another; see `ledger` for what that means for
//! pods that have finished. What the caches may not know is in [`own_writes`](steersman_controller::own_writes) and `memory`.
//!
//! As upstream's, in the form of Kubernetes 1.36, without `podFailurePolicy`, `successPolicy`, `backoffLimitPerIndex` and
//! `podReplacementPolicy: Failed`: a job with one of these is left alone, and an event says so. Unlike upstream's:
//! - no more than 500 pods a sync are deleted when a job is suspended or ends, either;
//! - a status is written by a patch of what changes (see `StatusWrite`);
//! - after a change of leaders a job is read from the API server before anything is done about it
//!   (see `Grounds`), and its back-off is recalled from the pods that are still there;
//! - a finalizer is not taken off as an orphan's because a job is not in the cache, only because it does not exist;
//! - a pod that could not be made is counted in `job_pods_creation_total` as failed, and not as succeeded too;
//! - a sync that waits for its cache is counted in `stale_sync_skips_total` once, and not at each attempt.

use std::sync::Arc;
use std::time::Duration;

use steersman_informer::index::{BY_CONTROLLER, BY_NAMESPACE, by_controller, by_namespace};
use steersman_informer::work_queue::{ItemExponential, Key, OncePerWindow, QueueConfig};
use steersman_informer::{IndexValue, View, keep};

use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::own_writes::OwnWrites;
use steersman_controller::pod_control::PodControl;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_kinds::job::{Job, JobSpec, JobStatus, JobTemplate};
use steersman_kinds::pod::{Completion, Containers, Phase, Placement, Pod, Readiness, Sidecars};

mod backoff;
mod controller;
mod indexes;
mod ledger;
mod live;
mod manage;
mod mapping;
mod memory;
mod metrics;
mod observed;
mod orphans;
mod plan;
mod pods;
mod status;
mod tally;
#[cfg(test)]
mod tests;
mod verdict;
mod wanted;

pub use controller::JobController;
pub use metrics::Metrics;
pub use orphans::{OrphanController, OrphanKey};

/// The row of the job controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("job-controller", &["job"], construct).options::<JobOptions>().rules(RULES);

options! {
    /// Settings of the job controller.
    pub struct JobOptions("JobController") {
        /// How many jobs are synced at a time
        pub concurrent_syncs: Workers = Workers(5), "concurrent-job-syncs", "ConcurrentJobSyncs";
        /// How long the controller gathers what pods do before it syncs their job. Upstream has no flag for it.
        pub batch_period: Duration = Duration::from_secs(1);
    }
}

const RULES: &[Rule] = &[
    Rule::new(&["batch"], &["jobs"], &["get", "list", "watch"]),
    Rule::new(&["batch"], &["jobs/status"], &["patch"])
        .because("Kubernetes's own role has update instead: this controller never replaces a status."),
    Rule::new(&["batch"], &["jobs/finalizers"], &["update"])
        .because("Pods name their job as an owner that may not go before them."),
    Rule::new(&[""], &["pods"], &["list", "watch", "create", "patch", "delete"]),
];

keep! {
    /// What the job controller reads of a job.
    pub struct SyncedJob: Job => JobSpec, JobTemplate, JobStatus
}

keep! {
    /// What the job controller reads of a pod.
    pub struct TrackedPod: Pod => Placement, Phase, Readiness, Containers, Sidecars, Completion
}

/// The controller's name: of its client, and of the source of its events.
const NAME: &str = "job-controller";

/// The wait after a first failure, and the longest. Upstream: `DefaultJobApiBackOff`, `MaxJobApiBackOff`.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Pods without a managing owner, by namespace.
const WITHOUT_CONTROLLER: &str = "namespaceWithoutController";

fn without_controller(pod: &View<TrackedPod>) -> Vec<IndexValue> {
    let free = pod.meta().controller().is_none();
    free.then(|| pod.meta().key.namespace.clone().into()).into_iter().collect()
}

/// Makes the job controller.
///
/// # Errors
/// The caches run already without what it needs, or its metrics are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let options: JobOptions = context.options();
    let (jobs, pods) =
        (context.informers.informer::<SyncedJob>()?, context.informers.informer::<TrackedPod>()?);
    let metrics = Metrics::new();
    metrics.register(&context.metrics)?;
    let (client, recorder) = (context.client_for(NAME), context.recorder(NAME));
    let job_client = Client::keeping::<SyncedJob>(client.clone());
    let pod_client = Client::keeping::<TrackedPod>(client);
    let live = live::LiveReads { jobs: job_client.clone(), pods: pod_client.clone() };
    let pod_control = PodControl::new(pod_client, recorder.clone());
    let pods_of_controller = pods.add_index(BY_CONTROLLER, by_controller);
    let pods_without_controller = pods.add_index(WITHOUT_CONTROLLER, without_controller);

    let queue = context.queue_with(queue_config("job"));
    let orphan_queue = context.queue_with(queue_config("job_orphan_pod"));
    let mapping = Arc::new(mapping::Mapping {
        jobs: jobs.lister(),
        jobs_of_namespace: jobs.add_index(BY_NAMESPACE, by_namespace),
        queue: queue.clone(),
        orphans: orphan_queue.clone(),
        metrics: metrics.clone(),
        batch_period: options.batch_period,
    });
    let of_pods = Arc::clone(&mapping);
    jobs.map(move |change| mapping.job_changed(change));
    pods.map(move |change| of_pods.pod_changed(change));

    let orphans = OrphanController {
        jobs: jobs.lister(),
        pods: pods.lister(),
        pods_of_controller,
        pod_control: pod_control.clone(),
        live: live.clone(),
    };
    let controller = JobController {
        jobs: jobs.lister(),
        pods: pods.lister(),
        pods_of_controller,
        pods_without_controller,
        client: job_client,
        live,
        pod_control,
        recorder,
        metrics,
        own_writes: OwnWrites::new(controller::PATIENCE).over(&jobs.any()).over(&pods.any()),
        memory: memory::Memory::default(),
    };
    let workers = options.concurrent_syncs.0;
    Ok(Construction::new(
        [
            QueueLoop::new(Arc::new(controller), queue).workers(workers).give_up(GiveUp::Never).into(),
            QueueLoop::new(Arc::new(orphans), orphan_queue).workers(workers).give_up(GiveUp::Never).into(),
        ],
        [jobs.any(), pods.any()],
    ))
}

fn queue_config<K: Key + Sync>(name: &str) -> QueueConfig<K> {
    let (first, longest) = BACK_OFF;
    QueueConfig::new(name).limiter(OncePerWindow::new(ItemExponential::new(first, longest)))
}

/// A number of the API, none of which are negative.
fn size(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// A number for the API.
fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
