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
//! pods that have finished. What the caches may not know is in [`own_writes`](crate::own_writes) and `memory`.
//!
//! As upstream's, in the form of Kubernetes 1.36, without `podFailurePolicy`, `successPolicy`, `backoffLimitPerIndex` and
//! `podReplacementPolicy: Failed`: a job with one of these is left alone, and an event says so. Unlike upstream's:
//! - no more than 500 pods a sync are deleted when a job is suspended or ends, either;
//! - a status is written by a patch of what changes (see `StatusWrite`);
//! - after a change of leaders a job is read from the API server before anything is done about it
//!   (see `Grounds`), and its back-off is recalled from the pods that are still there;
//! - a finalizer is not taken off as an orphan's because a job is not in the cache, only because it does not exist.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_informer::index::{BY_CONTROLLER_UID, BY_NAMESPACE, by_controller_uid, by_namespace};
use steersman_informer::work_queue::{ItemExponential, Key, OncePerWindow, QueueConfig};
use steersman_informer::{IndexValue, View, keep};

use crate::context::ControllerContext;
use crate::kinds::job::{Job, JobSpec, JobStatus, JobTemplate};
use crate::kinds::pod::{Completion, Containers, Phase, Placement, Pod, Readiness, Sidecars};
use crate::own_writes::OwnWrites;
use crate::pod_control::PodControl;
use crate::registry::{BoxError, Construction};
use crate::runner::{GiveUp, QueueLoop};

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
pub fn job_controller(context: &ControllerContext) -> Result<Construction, BoxError> {
    let (jobs, pods) =
        (context.informers.informer::<SyncedJob>()?, context.informers.informer::<TrackedPod>()?);
    let metrics = Metrics::new();
    metrics.register(&context.metrics)?;
    let (client, recorder) = (context.client_for(NAME), context.recorder(NAME));
    let live = live::LiveReads { client: client.clone() };
    let groups = <TrackedPod as steersman_informer::Selection>::GROUPS;
    let pod_control = PodControl::new(client.clone(), recorder.clone(), groups);
    let pods_of_controller = pods.add_index(BY_CONTROLLER_UID, by_controller_uid);
    let pods_without_controller = pods.add_index(WITHOUT_CONTROLLER, without_controller);

    let queue = context.queue_with(queue_config("job"));
    let orphan_queue = context.queue_with(queue_config("job_orphan_pod"));
    let mapping = Arc::new(mapping::Mapping {
        jobs: jobs.lister(),
        jobs_of_namespace: jobs.add_index(BY_NAMESPACE, by_namespace),
        queue: queue.clone(),
        orphans: orphan_queue.clone(),
        metrics: metrics.clone(),
        batch_period: context.options.job.batch_period,
    });
    let of_pods = Arc::clone(&mapping);
    jobs.map(move |change| mapping.job_changed(change));
    pods.map(move |change| of_pods.pod_changed(change));

    let orphans = OrphanController {
        jobs: jobs.lister(),
        pods: pods.lister(),
        pods_of_controller,
        pods_without_controller,
        pod_control: pod_control.clone(),
        live: live.clone(),
    };
    let controller = JobController {
        jobs: jobs.lister(),
        pods: pods.lister(),
        pods_of_controller,
        pods_without_controller,
        client,
        live,
        pod_control,
        recorder,
        metrics,
        own_writes: OwnWrites::new(controller::PATIENCE),
        memory: memory::Memory::default(),
        syncs: Mutex::new(HashMap::new()),
    };
    let workers = context.options.job.concurrent_syncs;
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
