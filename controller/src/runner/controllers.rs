//! All controllers of a process, run together.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use steersman_informer::AnyInformer;
use tokio::select;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{CacheHealth, ControllerHealth, ControllerStatus, Disabled, Loop, Metrics, Running, Stage};
use crate::children::FirstLooks;
use crate::context::Clock;

/// The time between two log lines about the caches that a controller waits for.
const CACHE_REMINDER: Duration = Duration::from_secs(30);
/// The time between two log lines about the controllers that a stop waits for, if the stop has no timeout. Otherwise it
/// is a third of the timeout, as upstream.
const STOP_REMINDER: Duration = Duration::from_secs(5);

/// A controller that is ready to run.
pub struct BuiltController {
    /// The controller's name.
    pub name: &'static str,
    /// The loops that do its work.
    pub loops: Vec<Loop>,
    /// The caches that must sync before the loops start.
    pub caches: Vec<Arc<dyn AnyInformer>>,
}

/// How controllers are spread at the start, and how long they may take to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Each controller starts after a random time between one and two times this, so that not all start at once.
    pub start_interval: Duration,
    /// How long a stop waits for syncs under way. Zero waits for ever.
    pub shutdown_timeout: Duration,
}

/// The syncs under way did not end within the shutdown timeout. The runner dropped them, so the outcome of their last
/// writes is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("controller shutdown timeout reached after {timeout:?}: still running: {}", running.join("; "))]
pub struct ShutdownTimeout {
    /// The shutdown timeout.
    pub timeout: Duration,
    /// The controllers that had not ended, with the keys that they were syncing.
    pub running: Vec<String>,
}

/// The controllers of this process. They run while this process leads, and stand by while it does not. The two may
/// alternate any number of times, but must not overlap.
#[derive(Clone)]
pub struct Controllers {
    controllers: Arc<[BuiltController]>,
    /// What each of them is doing, and since when.
    stages: Arc<[Mutex<(Stage, Instant)>]>,
    disabled: Arc<[Disabled]>,
    clock: Clock,
    metrics: Metrics,
    first_looks: FirstLooks,
}

impl Controllers {
    /// Creates the controllers without running them. They share `first_looks`, which each run discards: it is a new term.
    pub fn new(
        controllers: Vec<BuiltController>,
        clock: Clock,
        metrics: Metrics,
        first_looks: FirstLooks,
    ) -> Self {
        controllers.iter().for_each(|controller| metrics.built(controller.name));
        let stages = controllers.iter().map(|_| Mutex::new((Stage::StandingBy, Instant::now()))).collect();
        let disabled = Arc::default();
        Self { controllers: controllers.into(), stages, disabled, clock, metrics, first_looks }
    }

    /// The same controllers, which know of those that do not run in this process.
    #[must_use]
    pub fn with_disabled(mut self, disabled: Vec<Disabled>) -> Self {
        self.disabled = disabled.into();
        self
    }

    /// The controllers that do not run in this process, and why.
    pub fn disabled(&self) -> &[Disabled] {
        &self.disabled
    }

    /// The controllers' names, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.controllers.iter().map(|controller| controller.name)
    }

    /// The health of each controller.
    pub fn health(&self) -> Vec<ControllerHealth> {
        self.controllers.iter().map(BuiltController::health).collect()
    }

    /// Each controller at this moment.
    pub fn status(&self) -> Vec<ControllerStatus> {
        let each = self.controllers.iter().zip(&*self.stages).map(|(controller, stage)| {
            let (stage, since) = *stage.lock();
            ControllerStatus {
                controller: controller.name,
                stage,
                in_stage: since.elapsed(),
                caches: controller.caches.iter().map(|cache| cache.resource().to_string()).collect(),
                unsynced: controller.unsynced(),
                loops: controller.loops.iter().map(Loop::status).collect(),
            }
        });
        each.collect()
    }

    fn enter(&self, index: usize, stage: Stage) {
        *self.stages[index].lock() = (stage, Instant::now());
    }

    /// Discards the keys that are added to the queues, until `until` is cancelled. Before the caller runs the
    /// controllers again, it must have the caches notify them of all objects once more.
    pub async fn stand_by(&self, until: &CancellationToken) {
        let loops = self.controllers.iter().flat_map(|controller| &controller.loops);
        join_all(loops.map(|one| one.stand_by(until.clone()))).await;
    }

    /// Runs the controllers until `stop` is cancelled, then waits for the syncs under way.
    ///
    /// # Errors
    /// If these did not end within the shutdown timeout.
    pub async fn run(&self, stop: &CancellationToken, timing: Timing) -> Result<(), ShutdownTimeout> {
        self.first_looks.term_begins();
        let mut tasks = JoinSet::new();
        let left = Arc::new(Mutex::new(BTreeSet::new()));
        for index in 0..self.controllers.len() {
            let (this, stop, left) = (self.clone(), stop.clone(), Arc::clone(&left));
            let span = tracing::info_span!("controller", controller = self.controllers[index].name);
            left.lock().insert(index);
            self.enter(index, Stage::Starting);
            let run = async move {
                this.run_one(index, &stop, timing.start_interval).await;
                left.lock().remove(&index);
            };
            tasks.spawn(run.instrument(span));
        }
        stop.cancelled().await;
        let all_ended = async {
            while let Some(ended) = tasks.join_next().await {
                if let Err(error) = ended {
                    tracing::error!(%error, "Controller task failed");
                }
            }
        };
        let reminders = async {
            let mut period =
                interval(Some(timing.shutdown_timeout / 3).filter(|t| !t.is_zero()).unwrap_or(STOP_REMINDER));
            period.tick().await;
            loop {
                period.tick().await;
                tracing::info!(running = ?self.describe(&left.lock()), "Still waiting for some controllers to terminate");
            }
        };
        let too_late = async {
            match timing.shutdown_timeout {
                Duration::ZERO => std::future::pending().await,
                timeout => sleep(timeout).await,
            }
        };
        let in_time = select! {
            biased;
            () = all_ended => true,
            () = reminders => false,
            () = too_late => false,
        };
        for index in 0..self.controllers.len() {
            self.enter(index, Stage::StandingBy);
        }
        if in_time {
            tracing::info!("All controllers terminated");
            return Ok(());
        }
        let running = self.describe(&left.lock());
        tasks.abort_all();
        Err(ShutdownTimeout { timeout: timing.shutdown_timeout, running })
    }

    fn describe(&self, left: &BTreeSet<usize>) -> Vec<String> {
        let describe = |&index: &usize| {
            let health = self.controllers[index].health();
            let busy: Vec<String> = health.busy.iter().map(ToString::to_string).collect();
            if busy.is_empty() {
                health.controller.to_owned()
            } else {
                format!("{} ({})", health.controller, busy.join(", "))
            }
        };
        left.iter().map(describe).collect()
    }

    async fn run_one(&self, index: usize, stop: &CancellationToken, start_interval: Duration) {
        let controller = &self.controllers[index];
        let jitter = start_interval.mul_f64(1.0 + rand::random::<f64>());
        let begin = async {
            sleep(jitter).await;
            tracing::info!(name: "start", "Starting controller");
            self.enter(index, Stage::WaitingForCaches);
            controller.wait_for_caches().await;
        };
        if stop.run_until_cancelled(begin).await.is_none() {
            return;
        }
        let mark = self.metrics.running(controller.name);
        self.enter(index, Stage::Running);
        tracing::info!("Started controller");
        let running =
            Running { controller: controller.name, clock: self.clock.clone(), metrics: self.metrics.clone() };
        let mut loops = JoinSet::new();
        for one in &controller.loops {
            loops.spawn(one.run(running.clone(), stop.clone()).in_current_span());
        }
        while let Some(ended) = loops.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "Controller loop failed");
            }
        }
        drop(mark);
        self.enter(index, Stage::Ended);
        tracing::info!("Controller terminated");
    }
}

impl BuiltController {
    fn health(&self) -> ControllerHealth {
        ControllerHealth {
            controller: self.name,
            unsynced: self.unsynced(),
            caches: self.caches.iter().filter(|cache| cache.has_synced()).map(CacheHealth::of).collect(),
            busy: self.loops.iter().flat_map(Loop::busy).collect(),
        }
    }

    fn unsynced(&self) -> Vec<String> {
        let unsynced = self.caches.iter().filter(|cache| !cache.has_synced());
        unsynced.map(|cache| cache.resource().to_string()).collect()
    }

    async fn wait_for_caches(&self) {
        if self.unsynced().is_empty() {
            return;
        }
        tracing::info!(caches = ?self.unsynced(), "Waiting for caches to sync");
        let all = join_all(self.caches.iter().map(|cache| async move {
            // The sender lives as long as the cache.
            let _ = cache.watch_synced().wait_for(|synced| *synced).await;
        }));
        let reminders = async {
            loop {
                sleep(CACHE_REMINDER).await;
                tracing::warn!(caches = ?self.unsynced(), "Still waiting for caches to sync");
            }
        };
        select! {
            _ = all => tracing::info!("Caches are synced"),
            () = reminders => {}
        }
    }
}
