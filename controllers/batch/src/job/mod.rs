//! The job controller: runs pods until enough of them have succeeded.
//!
//! ```text
//! changes of jobs and pods ── mapping ──> queue "job" ──> JobController: observed ─> plan ─> steps
//!                                    └──> queue "job_orphan_pod" ──> OrphanController
//!
//! plan: claims ─> tally ─> verdict ─> manage (which pods) ─> ledger (which status, which finalizers)
//!                  failure_policy, success_policy, per_index: what a job's policies say about its pods and indexes
//! ```
//!
//! Policy is in `plan`, and in one file for each part of it. It is a function of the state of a job and its pods alone, so
//! that a sync goes on where another one broke off, in this process or in another; see `ledger` for what that means for
//! pods that have finished. Observations come from [`Children`], which knows what the caches may not show yet.
//!
//! Supports all of batch/v1, as upstream's controller of Kubernetes 1.36 with the gate `WorkloadWithJob` off (its default).
//! Unlike upstream's:
//! - a failed pod for which the pod failure policy fails the job keeps its finalizer until the status has `FailureTarget`, also
//!   if other pods could not be deleted;
//! - while other pods are active, a sync that enters finished pods into the status leaves it to the next sync to count them, so
//!   that it writes the status once and not twice;
//! - an index that has failed can't succeed any more, nor the reverse: the API server would refuse the status;
//! - a pod about which a rule of the pod failure policy decides counts in `pod_failures_handled_by_failure_policy_total` once,
//!   and not again if its finalizer could not be removed;
//! - a change of a pod that the controller does not read wakes no sync;
//! - the controller looks for pods of a finished job that still have the finalizer a second later, so that it removes no finalizer
//!   twice while the cache of pods lags;
//! - after a change of leaders the controller makes sure, before it acts on a job, that its caches show what the leader before
//!   has written (see [`Grounds`](steersman_controller::children::Grounds)), and recalls the job's back-off from the pods that
//!   still exist;
//! - the controller removes the finalizer of a pod whose job the cache lacks only if the API server lacks the job, too;
//! - a pod that could not be created counts in `job_pods_creation_total` as failed, and not as succeeded too;
//! - a sync that waits for its cache counts in `stale_sync_skips_total` once, and not at each attempt.

use std::sync::Arc;
use std::time::Duration;

use steersman_informer::keep;
use steersman_informer::work_queue::{ItemExponential, Key, OncePerWindow, QueueConfig};

use steersman_controller::children::Children;
use steersman_controller::client::StatusWriter;
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::pod_control::PodControl;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_kinds::job::{Job, JobSpec, JobStatus, JobTemplate};
use steersman_kinds::pod::{
    Completion, Containers, EarlierFailures, InitContainers, Phase, Placement, Pod, Readiness, Sidecars,
};
use steersman_kinds::pod_failure::PodFailure;

mod backoff;
mod controller;
mod failure_policy;
mod indexes;
mod ledger;
mod manage;
mod mapping;
mod metrics;
mod observed;
mod orphans;
mod per_index;
mod plan;
mod pods;
mod status;
mod success_policy;
mod tally;
#[cfg(test)]
mod tests;
mod verdict;
mod wanted;

pub use controller::JobController;
pub use metrics::Metrics;
use observed::Suspension;
pub use orphans::{OrphanController, OrphanKey};

/// The row of the job controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new("job-controller", &["job"], construct)
    .options::<JobOptions>()
    .rules(RULES)
    .gates(&[SCHEDULING_DIRECTIVES]);

/// The gate by which the suspension of a job clears its start time.
const SCHEDULING_DIRECTIVES: &str = "MutableSchedulingDirectivesForSuspendedJobs";

options! {
    /// Settings of the job controller.
    pub struct JobOptions("JobController") {
        /// How many jobs are synced at a time
        pub concurrent_syncs: Workers = Workers(5), "concurrent-job-syncs", "ConcurrentJobSyncs";
        /// How long the controller gathers changes of pods before it syncs their job, and waits before it looks for pods of a
        /// finished job that still have the finalizer. Upstream has no flag for it.
        pub batch_period: Duration = Duration::from_secs(1);
    }
}

const RULES: &[Rule] = &[
    Rule::new(&["batch"], &["jobs"], &["get", "list", "watch"]),
    Rule::new(&["batch"], &["jobs/status"], &["patch"]).because(
        "Kubernetes's own role has update instead, which the controller uses where it may not patch.",
    ),
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
    pub struct TrackedPod: Pod =>
        Placement, Phase, Readiness, Containers, InitContainers, Sidecars, Completion, EarlierFailures, PodFailure
}

/// The controller's name: of its client, and of the source of its events.
const NAME: &str = "job-controller";

/// The wait after a first failure, and the longest. Upstream: `DefaultJobApiBackOff`, `MaxJobApiBackOff`.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Makes the job controller.
///
/// # Errors
/// The caches run already without the fields that the controller reads, or its metrics are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let options: JobOptions = context.options();
    let metrics = Metrics::new();
    metrics.register(&context.metrics)?;
    let children = Arc::new(Children::<SyncedJob>::new(context, &context.client_for(NAME))?);
    let recorder = context.recorder(NAME);
    // Of a pod that it has just created the controller reads only metadata.
    let pod_calls = children.child_client().clone().answered_with_metadata();
    let pod_control = PodControl::new(pod_calls, recorder.clone());

    let queue = context.queue_with(queue_config("job"));
    let orphan_queue = context.queue_with(queue_config("job_orphan_pod"));
    let mapping = Arc::new(mapping::Mapping {
        children: Arc::downgrade(&children),
        queue: queue.clone(),
        orphans: orphan_queue.clone(),
        metrics: metrics.clone(),
        batch_period: options.batch_period,
    });
    let of_pods = Arc::clone(&mapping);
    let (jobs, pods) = children.informers();
    jobs.map(move |change| mapping.job_changed(change));
    pods.map(move |change| of_pods.pod_changed(change));

    let caches = children.caches();
    let orphans = OrphanController { children: Arc::clone(&children), pod_control: pod_control.clone() };
    let controller = JobController {
        status: StatusWriter::new(children.owner_client().clone()),
        children,
        pod_control,
        recorder,
        metrics,
        backoffs: backoff::Backoffs::default(),
        suspension: if context.gates.enabled(SCHEDULING_DIRECTIVES) {
            Suspension::ClearsStartTime
        } else {
            Suspension::KeepsStartTime
        },
    };
    let workers = options.concurrent_syncs.0;
    Ok(Construction::new(
        [
            QueueLoop::new(Arc::new(controller), queue).workers(workers).give_up(GiveUp::Never).into(),
            QueueLoop::new(Arc::new(orphans), orphan_queue).workers(workers).give_up(GiveUp::Never).into(),
        ],
        caches,
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
