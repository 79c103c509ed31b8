//! The loops of a controller.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use steersman_informer::work_queue::Priority;
use tokio::select;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Running;
use super::failures::{Failures, shortened};
use super::metrics::Outcome;
use super::status::{LoopSort, LoopStatus};
use super::sync::{Synced, panic_text, sync};
use super::watch::{Busy, Post};
use super::workers::QueueLoop;
use crate::controller::Controller;

/// The wait before a loop's future that panicked outside of a sync is started again.
const RESTART_WAIT: Duration = Duration::from_secs(1);

/// One of the loops of a controller: a [`QueueLoop`], a [`PeriodicLoop`] or a [`TaskLoop`].
#[derive(Clone)]
pub struct Loop(Arc<dyn Run>);

/// What all loops have in common. See the [module](super) for what holds for all of them.
pub(super) trait Run: Send + Sync + 'static {
    /// Runs until `stop` is cancelled and the work under way is done.
    fn run(self: Arc<Self>, running: Running, stop: CancellationToken) -> BoxFuture<'static, ()>;

    /// Stands by while this process does not lead, until `until` is cancelled.
    fn stand_by(self: Arc<Self>, until: CancellationToken) -> BoxFuture<'static, ()> {
        async move { until.cancelled().await }.boxed()
    }

    /// The loop's workers that are syncing a key.
    fn busy(&self) -> Vec<Busy> {
        Vec::new()
    }

    /// The loop at this moment.
    fn status(&self) -> LoopStatus;
}

impl Loop {
    pub(super) fn run(&self, running: Running, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Arc::clone(&self.0).run(running, stop)
    }

    pub(super) fn stand_by(&self, until: CancellationToken) -> BoxFuture<'static, ()> {
        Arc::clone(&self.0).stand_by(until)
    }

    pub(super) fn busy(&self) -> Vec<Busy> {
        self.0.busy()
    }

    pub(super) fn status(&self) -> LoopStatus {
        self.0.status()
    }
}

impl<C: Controller, P: Priority + Sync> From<QueueLoop<C, P>> for Loop {
    fn from(queue: QueueLoop<C, P>) -> Self {
        Self(Arc::new(queue))
    }
}

impl<C: Controller> From<PeriodicLoop<C>> for Loop {
    fn from(periodic: PeriodicLoop<C>) -> Self {
        Self(Arc::new(periodic))
    }
}

impl From<TaskLoop> for Loop {
    fn from(task: TaskLoop) -> Self {
        Self(Arc::new(task))
    }
}

/// Syncs one key at the start, and again one period after the end of each sync, or earlier if the plan says so. Logs
/// syncs that fail.
pub struct PeriodicLoop<C: Controller> {
    controller: Arc<C>,
    key: C::Key,
    period: Duration,
    post: Post<C::Key>,
    failures: Failures,
}

impl<C: Controller> PeriodicLoop<C> {
    /// A loop that syncs `key`, for instance `"all pods"`. The loop is named after the key.
    pub fn new(controller: Arc<C>, key: C::Key, period: Duration) -> Self {
        Self { controller, key, period, post: Post::new(), failures: Failures::default() }
    }

    /// Syncs once, and returns the wait until the next sync.
    async fn tick(&self, running: &Running, stop: &CancellationToken) -> Duration {
        let at_work = self.post.begin(&self.key);
        let ended = self
            .post
            .recording(sync(&*self.controller, &self.key, running, stop, || at_work.progress()))
            .await;
        let (outcome, again) = match ended {
            Synced::Done { requeue_after } => (Outcome::Synced, requeue_after),
            Synced::Behind(at_most) => (Outcome::Behind, Some(at_most)),
            Synced::Stopped => return self.period,
            Synced::Failed { error, requeue_after } => {
                if error.is_end_of_leadership() {
                    // This is no fault: the process is about to stop leading.
                    tracing::debug!(%error, "Sync ended");
                } else {
                    tracing::warn!(%error, "Sync failed, retrying at the end of the period");
                    self.failures.record(&self.key, &error, running.clock.timestamp());
                }
                (Outcome::Failed, requeue_after)
            }
        };
        running.metrics.synced(running.controller, outcome);
        again.map_or(self.period, |again| again.min(self.period))
    }
}

impl<C: Controller> Run for PeriodicLoop<C> {
    fn run(self: Arc<Self>, running: Running, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let span = tracing::info_span!("sync", controller = running.controller, key = %self.key);
        async move {
            self.controller.term_begins();
            while !stop.is_cancelled() {
                let wait = self.tick(&running, &stop).await;
                select! {
                    () = stop.cancelled() => {}
                    () = sleep(wait) => {}
                }
            }
        }
        .instrument(span)
        .boxed()
    }

    fn busy(&self) -> Vec<Busy> {
        self.post.look("the periodic loop", 0).into_iter().collect()
    }

    fn status(&self) -> LoopStatus {
        let sort = LoopSort::Periodic { period: self.period };
        LoopStatus::new(&shortened(self.key.to_string()), sort, self.busy(), self.failures.latest())
    }
}

/// A future of the controller's own, which the runner makes anew each time this process begins to lead. The future must
/// end soon after its token is cancelled, and may end before. If it panics, the runner makes it again a second later.
pub struct TaskLoop {
    name: &'static str,
    make: Box<dyn Fn(CancellationToken) -> BoxFuture<'static, ()> + Send + Sync>,
    failures: Failures,
}

impl TaskLoop {
    /// A loop that runs the future that `make` returns.
    pub fn new<F>(name: &'static str, make: impl Fn(CancellationToken) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self { name, make: Box::new(move |stop| make(stop).boxed()), failures: Failures::default() }
    }
}

impl Run for TaskLoop {
    fn run(self: Arc<Self>, running: Running, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let span = tracing::info_span!("task", controller = running.controller, task = self.name);
        async move { restarting(&running, &stop, &self.failures, || (self.make)(stop.clone())).await }
            .instrument(span)
            .boxed()
    }

    fn status(&self) -> LoopStatus {
        LoopStatus::new(self.name, LoopSort::Task, Vec::new(), self.failures.latest())
    }
}

/// Runs the future that `make` returns until it ends. After a panic, makes and runs another one, unless `stop` is
/// cancelled.
pub(super) async fn restarting<F: Future<Output = ()>>(
    running: &Running,
    stop: &CancellationToken,
    failures: &Failures,
    make: impl Fn() -> F,
) {
    while let Err(panic) = AssertUnwindSafe(make()).catch_unwind().await {
        running.metrics.panics(running.controller).inc();
        let error = panic_text(&*panic);
        tracing::error!(error, "Observed a panic, starting again");
        failures.record(&running.controller, &format!("panic: {error}"), running.clock.timestamp());
        if stop.run_until_cancelled(sleep(RESTART_WAIT)).await.is_none() {
            return;
        }
    }
}
