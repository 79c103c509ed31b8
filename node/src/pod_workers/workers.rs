//! All pod workers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use steersman_api::Uid;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::known::Known;
use super::metrics::Metrics;
use super::states::States;
use super::status::has_terminal_phase;
use super::statuses::PodStatuses;
use super::syncer::PodSyncer;
use super::update::{Kill, StatusChange, Target, Update, UpdateKind};
use super::work_queue::WorkQueue;
use super::worker::Worker;
use crate::container::{ContainerState, PodStatus, SandboxState};
use crate::events::{EventType, Events, pod_reference};

/// How often pods are looked at.
#[derive(Debug, Clone)]
pub struct Config {
    /// From a sync that went well to the next one, unless something happens; up to half as long again. Default 1 min, the
    /// kubelet's `syncFrequency`.
    pub resync: Duration,
    /// From a sync that failed to the next one, unless the failure says; up to half as long again. Default 10 s, as the
    /// kubelet's.
    pub back_off: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { resync: Duration::from_secs(60), back_off: Duration::from_secs(10) }
    }
}

/// The pod workers; a clone is the same. One who updates them: the sync loop; and who kills pods in need.
///
/// Each pod has a task of its own from its first update until it is finished. The task begins with the newest update, and
/// those in between are left out. A sync that hangs, fails or panics holds up no other pod. After a sync the pod is
/// [due](Self::take_due) some time later; it is the sync loop that then sends an update.
#[derive(Clone)]
pub struct PodWorkers {
    shared: Arc<Shared>,
}

/// What workers share.
pub(super) struct Shared {
    pub(super) states: States,
    pub(super) syncer: Arc<dyn PodSyncer>,
    pub(super) statuses: Arc<dyn PodStatuses>,
    pub(super) events: Events,
    pub(super) config: Config,
    pub(super) metrics: Metrics,
    /// What the runtime told before does not count.
    pub(super) began: Instant,
    pub(super) stop: CancellationToken,
    queue: Mutex<WorkQueue>,
    tasks: TaskTracker,
}

impl Shared {
    /// The pod is due after `wait`.
    pub(super) fn enqueue(&self, pod: Uid, wait: Duration) {
        self.queue.lock().enqueue(pod, Instant::now() + wait);
    }
}

/// A pod that was killed did not end in time. It goes on ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("timeout waiting to kill pod")]
pub struct KillTimeout;

impl PodWorkers {
    /// Without workers. `states` is what others ask; it must be given to no other workers. To be made before `statuses` are
    /// read from the runtime for the first time: a pod is not synced before the runtime was asked what it has.
    pub fn new(
        states: States,
        syncer: Arc<dyn PodSyncer>,
        statuses: Arc<dyn PodStatuses>,
        events: Events,
        config: Config,
        metrics: Metrics,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                states,
                syncer,
                statuses,
                events,
                config,
                metrics,
                began: Instant::now(),
                stop: CancellationToken::new(),
                queue: Mutex::default(),
                tasks: TaskTracker::new(),
            }),
        }
    }

    /// What is known of pods.
    pub fn states(&self) -> &States {
        &self.shared.states
    }

    /// What is measured.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Has a pod's worker see something. Never waits. Ignored for a pod that is finished, until it is forgotten.
    pub fn update(&self, update: Update) {
        let shared = &self.shared;
        if shared.stop.is_cancelled() {
            return;
        }
        let ended = self.ended_before(&update.target);
        let Some(worker) = shared.states.table().update(update, ended) else { return };
        let span = tracing::info_span!("pod_worker", pod = worker.full_name, uid = %worker.pod);
        shared.tasks.spawn(Worker::new(shared.clone(), worker).run().instrument(span));
    }

    /// Whether a pod has a terminal phase and nothing of it runs: if it is not known, it ended before this process began.
    fn ended_before(&self, target: &Target) -> bool {
        let Target::Pod { pod, .. } = target else { return false };
        if !has_terminal_phase(pod) {
            return false;
        }
        let (statuses, uid) = (&self.shared.statuses, target.uid());
        let known = statuses.get_newer_than(&uid, self.shared.began).now_or_never();
        known.is_some_and(|status| status.is_ok_and(|status| nothing_runs(&status)))
    }

    /// These are all pods that sources have, and all of them have been told of. Finished pods that no source has, or that are
    /// wanted again, are forgotten; others that no source has are brought to their end. Says what is known of all that are
    /// left: what is desired and not among them is to be told of again.
    ///
    /// To be called between updates, by the one who sends those.
    pub fn sync_known_pods(&self, desired: &[Arc<Pod>]) -> HashMap<Uid, Known> {
        self.shared.states.table().sync_known_pods(desired)
    }

    /// Takes out the pods that are to be looked at by now.
    pub fn take_due(&self) -> Vec<Uid> {
        self.shared.queue.lock().take_due(Instant::now())
    }

    /// Kills a pod, and waits until nothing of it runs: at most half as long again as it has for its end, and ten seconds at
    /// least. For eviction and preemption.
    ///
    /// # Errors
    /// It did not end in that time; an event tells it.
    pub async fn kill_now(
        &self,
        pod: Arc<Pod>,
        evict: bool,
        grace: Option<i64>,
        status: Option<StatusChange>,
    ) -> Result<(), KillTimeout> {
        let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let seconds = u64::try_from(grace.or(own).unwrap_or_default()).unwrap_or_default();
        let limit = Duration::from_secs((seconds + seconds / 2).max(10));
        let (done, ended) = oneshot::channel();
        let kill = Some(Kill { evict, grace, status, done: Some(done) });
        self.update(Update { kill, ..Update::of(UpdateKind::Kill, pod.clone(), None) });
        // Dropped is as good as told.
        tokio::time::timeout(limit, ended).await.map(drop).map_err(|_| {
            let message = "Container runtime did not kill the pod within specified grace period.";
            self.shared.events.event(
                &pod_reference(&pod),
                EventType::Warning,
                "ExceededGracePeriod",
                message,
            );
            KillTimeout
        })
    }

    /// How many workers there are.
    pub fn len(&self) -> usize {
        self.shared.tasks.len()
    }

    /// Whether there are no workers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Breaks off all syncs and ends all workers; pods go on running. Updates are ignored from then on.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

/// Whether no container and no sandbox of the pod runs.
fn nothing_runs(status: &PodStatus) -> bool {
    status.containers.iter().all(|container| container.state != ContainerState::Running)
        && status.sandboxes.iter().all(|sandbox| sandbox.state != SandboxState::Ready)
}
