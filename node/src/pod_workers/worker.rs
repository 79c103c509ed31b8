//! The task that works for one pod.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use rand::Rng;
use steersman_api::Uid;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::back_off::{self, Ended};
use super::states::{Begin, NewWorker};
use super::status::{Job, Work};
use super::syncer::{SyncFailure, Synced};
use super::uid_of;
use super::update::UpdateKind;
use super::workers::Shared;
use crate::container::PodStatus;
use crate::events::{EventType, pod_reference};
use crate::interrupt::Interrupt;

/// Works for one pod until that is finished or forgotten.
pub(super) struct Worker {
    shared: Arc<Shared>,
    pod: Uid,
    full_name: String,
    number: u64,
    wake: Arc<Notify>,
    /// When the last sync ended: the next one must see a status that is newer. Before the first it must see any at all.
    last_sync: Instant,
}

/// How one sync ended.
enum Outcome {
    Done(Synced),
    Failed(SyncFailure),
    /// The pod must end, or end sooner: something newer is pending.
    Interrupted,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, worker: NewWorker) -> Self {
        let NewWorker { pod, full_name, number, wake } = worker;
        let last_sync = shared.began;
        Self { shared, pod, full_name, number, wake, last_sync }
    }

    /// Ends with the pod, or when all workers are stopped.
    pub(super) async fn run(mut self) {
        let shared = self.shared.clone();
        loop {
            if shared.stop.is_cancelled() {
                return;
            }
            let begin = shared.states.table().begin(&self.pod, self.number);
            match begin {
                Begin::Over => return,
                Begin::NeverStarted(since) => {
                    if let Some(since) = since {
                        shared.metrics.worked("terminated", since.elapsed());
                    }
                    return;
                }
                Begin::Job(job, interrupt) => {
                    self.announce(&job);
                    let sync = AssertUnwindSafe(self.sync(&job.work, &interrupt)).catch_unwind();
                    // A stop waits for nothing: the runtime's connection ends with this process.
                    let ended = shared.stop.run_until_cancelled(interrupt.run(sync)).await;
                    let outcome = match ended {
                        None => return,
                        Some(None) => Outcome::Interrupted,
                        Some(Some(Ok(Ok(synced)))) => Outcome::Done(synced),
                        Some(Some(Ok(Err(failure)))) => Outcome::Failed(failure),
                        Some(Some(Err(panic))) => Outcome::Failed(self.panicked(&*panic)),
                    };
                    self.last_sync = Instant::now();
                    if self.finish(&job, &outcome) {
                        return;
                    }
                    continue;
                }
                Begin::NotYet => {
                    let wait = back_off::jitter(shared.config.back_off, rand::rng().random());
                    shared.enqueue(self.pod.clone(), wait);
                }
                Begin::Idle => {}
            }
            tokio::select! {
                () = shared.stop.cancelled() => return,
                () = self.wake.notified() => {}
            }
        }
    }

    fn announce(&self, job: &Job) {
        tracing::debug!(work = ?job.work, kind = job.kind.as_str(), "Pod is synced");
        let metrics = &self.shared.metrics;
        match &job.work {
            Work::Sync { pod, .. } | Work::Terminate(pod, _) | Work::CleanUp(pod) if job.first => {
                metrics.admitted(pod);
            }
            _ => {}
        }
        if let (Work::Sync { pod, .. }, UpdateKind::Create) = (&job.work, job.kind) {
            metrics.worker_started(pod, Timestamp::now());
        }
    }

    async fn sync(&self, work: &Work, interrupt: &Interrupt) -> Result<Synced, SyncFailure> {
        let syncer = &self.shared.syncer;
        match work {
            Work::TerminateRuntime(pod) => syncer.sync_terminating_runtime_pod(pod).await?,
            Work::Sync { pod, mirror } => {
                let status = self.status(pod).await?;
                return syncer.sync_pod(pod, mirror.as_ref(), &status, interrupt).await;
            }
            Work::Terminate(pod, termination) => {
                let status = self.status(pod).await?;
                syncer.sync_terminating_pod(pod, &status, termination).await?;
            }
            Work::CleanUp(pod) => {
                let status = self.status(pod).await?;
                syncer.sync_terminated_pod(pod, &status).await?;
            }
        }
        Ok(Synced::GoesOn)
    }

    /// What the runtime has of the pod, as of after the last sync.
    async fn status(&self, pod: &Pod) -> Result<Arc<PodStatus>, SyncFailure> {
        let (statuses, uid) = (&self.shared.statuses, uid_of(pod));
        let mut newer = statuses.get_newer_than(&uid, self.last_sync);
        let status = match (&mut newer).now_or_never() {
            Some(status) => status,
            None => {
                statuses.request_relist(&uid);
                newer.await
            }
        };
        status.map_err(|error| {
            let message = format!("error determining status: {error}");
            self.shared.events.event(&pod_reference(pod), EventType::Warning, "FailedSync", &message);
            SyncFailure { told: true, ..SyncFailure::new(message) }
        })
    }

    /// Takes what came of a job to the table and the queue; says whether the worker is done.
    fn finish(&self, job: &Job, outcome: &Outcome) -> bool {
        let (shared, pod) = (&self.shared, &self.pod);
        let mut operation = job.kind.as_str();
        let mut over = false;
        let ended = match outcome {
            Outcome::Interrupted => {
                tracing::debug!(work = ?job.work, "Sync of the pod was broken off");
                Ended::Failed(None)
            }
            Outcome::Failed(failure) => {
                self.log(&job.work, failure);
                Ended::Failed(Some(failure))
            }
            Outcome::Done(synced) => {
                let mut table = shared.states.table();
                match (&job.work, synced) {
                    (Work::CleanUp(_), _) => {
                        table.complete_terminated(pod, self.number);
                        operation = "terminated";
                        over = true;
                    }
                    (Work::TerminateRuntime(_), _) => {
                        table.complete_terminating_runtime(pod, self.number);
                        over = true;
                    }
                    (Work::Terminate(..), _) => table.complete_terminating(pod, self.number),
                    (Work::Sync { .. }, Synced::Ended) => table.complete_sync(pod, self.number),
                    (Work::Sync { .. }, Synced::Changed) => shared.statuses.request_relist(pod),
                    (Work::Sync { .. }, Synced::GoesOn) => {}
                }
                let goes_on =
                    matches!((&job.work, synced), (Work::Sync { .. }, Synced::GoesOn | Synced::Changed));
                if goes_on { Ended::Well } else { Ended::NextState }
            }
        };
        if !over {
            let config = &shared.config;
            let wait = back_off::next_sync(ended, config.resync, config.back_off, rand::rng().random());
            shared.enqueue(pod.clone(), wait);
        }
        if let Some(since) = job.since {
            shared.metrics.worked(operation, since.elapsed());
        }
        over
    }

    fn log(&self, work: &Work, failure: &SyncFailure) {
        let (pod, error) = (&self.full_name, &failure.message);
        if failure.told {
            tracing::debug!(pod, uid = %self.pod, ?work, error, "Error syncing pod, skipping");
        } else {
            tracing::error!(pod, uid = %self.pod, ?work, error, "Error syncing pod, skipping");
        }
    }

    fn panicked(&self, panic: &(dyn Any + Send)) -> SyncFailure {
        self.shared.metrics.panicked();
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        SyncFailure::new(format!("the sync panicked: {}", text.unwrap_or("no message")))
    }
}
