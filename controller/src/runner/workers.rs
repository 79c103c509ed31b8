//! The workers of a queue.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use steersman_informer::throttle::Throttle;
use steersman_informer::work_queue::{Priority, Taken, WorkQueue};
use tokio::select;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Running;
use super::failures::{Failures, shortened};
use super::loops::{Run, restarting};
use super::metrics::Outcome;
use super::status::{LISTED, LoopSort, LoopStatus, QueueState, RetryState, WaitingState};
use super::sync::{Synced, sync};
use super::watch::{Busy, Post};
use crate::controller::{Controller, SyncError};

/// The longest delay of a key whose sync failed by the API server's [fault](SyncError::is_servers_fault). The key's back-off tells
/// nothing about the server: after two minutes of absence, keys would come again up to a minute and a half after the server's
/// return. Each controller's client limits how many calls that makes.
const SERVERS_FAULT_DELAY: Duration = Duration::from_secs(10);

/// Lines about syncs that failed by the API server's fault, which can be all syncs: so many in this time.
const SERVERS_FAULT_LINES: (u32, Duration) = (5, Duration::from_secs(30));

/// What the loop does with a key that fails again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// Retries the key this many times in a row. If it fails once more, the loop drops it until its next event, unless the
    /// API server is to blame: nothing would add the key again when the server is well.
    AfterFailures(u32),
    /// Retries the key until it succeeds. The back-off grows up to its maximum.
    Never,
}

impl GiveUp {
    /// The `maxRetries` of most of upstream's controllers. With the default back-off the last wait is 82 seconds.
    pub const UPSTREAM: Self = Self::AfterFailures(15);
}

/// Runs the workers of a controller's queue.
///
/// After a sync that succeeded, the loop forgets the key, or requeues it if the plan says so. After a sync that failed
/// or panicked, it requeues the key after its back-off. If a cache is behind, it parks the key.
pub struct QueueLoop<C: Controller, P: Priority = ()> {
    controller: Arc<C>,
    queue: WorkQueue<C::Key, P>,
    give_up: GiveUp,
    /// Each worker's current sync.
    posts: Vec<Post<C::Key>>,
    /// Bounds the lines about failures of the API server.
    servers_faults: Throttle,
    failures: Failures,
}

impl<C: Controller, P: Priority> QueueLoop<C, P> {
    /// A loop with one worker that gives up as [`GiveUp::UPSTREAM`].
    pub fn new(controller: Arc<C>, queue: WorkQueue<C::Key, P>) -> Self {
        let servers_faults = Throttle::new(SERVERS_FAULT_LINES.0, SERVERS_FAULT_LINES.1);
        let (posts, failures) = (vec![Post::new()], Failures::default());
        Self { controller, queue, give_up: GiveUp::UPSTREAM, posts, servers_faults, failures }
    }

    /// The same loop with `count` workers, at least one.
    #[must_use]
    pub fn workers(mut self, count: usize) -> Self {
        self.posts = (0..count.max(1)).map(|_| Post::new()).collect();
        self
    }

    /// The same loop with another rule for keys that keep failing.
    #[must_use]
    pub fn give_up(mut self, give_up: GiveUp) -> Self {
        self.give_up = give_up;
        self
    }

    async fn work(&self, worker: usize, running: &Running, stop: &CancellationToken) {
        loop {
            let taken = select! {
                biased;
                () = stop.cancelled() => return,
                taken = self.queue.get() => taken,
            };
            let Some(taken) = taken else { return };
            let span = tracing::info_span!("sync", queue = self.queue.name(), key = %taken.key());
            self.sync(worker, taken, running, stop).instrument(span).await;
        }
    }

    async fn sync(
        &self,
        worker: usize,
        taken: Taken<C::Key, P>,
        running: &Running,
        stop: &CancellationToken,
    ) {
        let post = &self.posts[worker];
        let at_work = post.begin(taken.key());
        let ended =
            post.recording(sync(&*self.controller, taken.key(), running, stop, || at_work.progress())).await;
        drop(at_work);
        let count = |outcome| running.metrics.synced(running.controller, outcome);
        match ended {
            Synced::Behind(at_most) => {
                count(Outcome::Behind);
                tracing::debug!(?at_most, "Cache is behind, parking the key");
                taken.park(at_most);
            }
            Synced::Stopped => taken.finish(),
            Synced::Done { requeue_after } => {
                count(Outcome::Synced);
                match requeue_after {
                    None => taken.finish(),
                    Some(delay) => {
                        self.queue.forget(taken.key());
                        taken.requeue_after(delay);
                    }
                }
            }
            Synced::Failed { error, requeue_after } => {
                count(Outcome::Failed);
                // If a key has two delays, the queue keeps the shorter.
                if let Some(delay) = requeue_after {
                    let priority = taken.priority().clone();
                    self.queue.add_after_with_priority(taken.key().clone(), delay, priority);
                }
                self.failed(taken, running, &error);
            }
        }
    }

    fn failed(&self, taken: Taken<C::Key, P>, running: &Running, error: &SyncError) {
        if !error.is_end_of_leadership() {
            self.failures.record(taken.key(), error, running.clock.timestamp());
        }
        let failures = self.queue.retries(taken.key());
        if error.is_servers_fault() {
            let retry_in = taken.retry_within(SERVERS_FAULT_DELAY);
            match self.servers_faults.pass() {
                Some(line) => {
                    let others = line.kept_back;
                    tracing::warn!(%error, failures, ?retry_in, others, "Sync failed by the API server's fault, retrying");
                }
                None => {
                    tracing::debug!(%error, failures, ?retry_in, "Sync failed by the API server's fault, retrying")
                }
            }
            return;
        }
        if matches!(self.give_up, GiveUp::AfterFailures(most) if failures >= most) {
            tracing::error!(%error, failures, "Dropping key out of the queue until its next event");
            running.metrics.dropped(running.controller);
            taken.finish();
            return;
        }
        let retry_in = taken.retry();
        if error.is_end_of_leadership() {
            // This is no fault: the process is about to stop leading.
            tracing::debug!(%error, "Sync ended");
        } else {
            tracing::warn!(%error, failures, ?retry_in, "Sync failed, retrying");
        }
    }
}

impl<C: Controller, P: Priority + Sync> Run for QueueLoop<C, P> {
    fn run(self: Arc<Self>, running: Running, stop: CancellationToken) -> BoxFuture<'static, ()> {
        async move {
            self.controller.term_begins();
            let mut workers = JoinSet::new();
            for worker in 0..self.posts.len() {
                let (this, running, stop) = (Arc::clone(&self), running.clone(), stop.clone());
                let span = tracing::info_span!("worker", controller = running.controller, worker);
                let work = async move {
                    restarting(&running, &stop, &this.failures, || this.work(worker, &running, &stop)).await;
                };
                workers.spawn(work.instrument(span));
            }
            workers.join_all().await;
        }
        .boxed()
    }

    /// Discards the keys that mappings add, so that keys of deleted objects do not pile up.
    fn stand_by(self: Arc<Self>, until: CancellationToken) -> BoxFuture<'static, ()> {
        async move {
            while let Some(Some(taken)) = until.run_until_cancelled(self.queue.get()).await {
                taken.finish();
            }
        }
        .boxed()
    }

    fn busy(&self) -> Vec<Busy> {
        let looks = self.posts.iter().enumerate().map(|(worker, post)| post.look(self.queue.name(), worker));
        looks.flatten().collect()
    }

    fn status(&self) -> LoopStatus {
        let queue = self.queue.status(LISTED);
        let text = |key: &C::Key| shortened(key.to_string());
        let retries = queue.retries.iter().map(|retry| RetryState {
            key: text(&retry.key),
            failures: retry.failures,
            due_in: retry.due_in,
        });
        let waiting = queue.first_parked.iter().map(|(key, at_most)| WaitingState {
            key: text(key),
            at_most: *at_most,
            awaited: self.controller.awaited(key),
        });
        let state = QueueState {
            workers: self.posts.len(),
            depth: queue.depth,
            failing: queue.failing,
            delayed: queue.delayed,
            parked: queue.parked,
            longest_running: queue.longest_running.as_ref().map(|(_, time)| *time),
            retries: retries.collect(),
            waiting: waiting.collect(),
        };
        let failures = self.failures.latest();
        LoopStatus::new(self.queue.name(), LoopSort::Queue(state), self.busy(), failures)
    }
}
