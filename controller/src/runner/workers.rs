//! The workers of a queue.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use steersman_informer::work_queue::{Taken, WorkQueue};
use tokio::select;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::Running;
use super::loops::{Run, restarting};
use super::metrics::Outcome;
use super::sync::{Synced, sync};
use super::watch::{Busy, Post};
use crate::controller::{Controller, SyncError};

/// What becomes of a key that fails again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// After so many failures in a row that were tried again, the next one is the last: the key waits for its next event.
    AfterFailures(u32),
    /// It is tried again, with the longest back-off, until it succeeds.
    Never,
}

impl GiveUp {
    /// Upstream's `maxRetries` of most controllers. With the default back-off the last wait is 82 seconds.
    pub const UPSTREAM: Self = Self::AfterFailures(15);
}

/// A controller and the queue of its keys.
///
/// A key that synced is forgotten, or comes again when the controller wants it; one that failed, or panicked, comes again
/// after its back-off; one whose cache is behind is parked.
pub struct QueueLoop<C: Controller> {
    controller: Arc<C>,
    queue: WorkQueue<C::Key>,
    give_up: GiveUp,
    /// One for each worker.
    posts: Vec<Post<C::Key>>,
}

impl<C: Controller> QueueLoop<C> {
    /// With one worker, and upstream's patience.
    pub fn new(controller: Arc<C>, queue: WorkQueue<C::Key>) -> Self {
        Self { controller, queue, give_up: GiveUp::UPSTREAM, posts: vec![Post::new()] }
    }

    /// With so many workers, at least one.
    #[must_use]
    pub fn workers(mut self, count: usize) -> Self {
        self.posts = (0..count.max(1)).map(|_| Post::new()).collect();
        self
    }

    /// With another patience.
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
            self.sync(worker, taken, running).instrument(span).await;
        }
    }

    async fn sync(&self, worker: usize, taken: Taken<C::Key>, running: &Running) {
        let at_work = self.posts[worker].begin(taken.key());
        let ended = sync(&*self.controller, taken.key(), running, || at_work.progress()).await;
        drop(at_work);
        let count = |outcome| running.metrics.synced(running.controller, outcome);
        match ended {
            Synced::Behind(at_most) => {
                count(Outcome::Behind);
                tracing::debug!(?at_most, "The cache is behind, the key is put aside");
                taken.park(at_most);
            }
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
                // Of two waits of one key the queue keeps the shorter.
                if let Some(delay) = requeue_after {
                    self.queue.add_after(taken.key().clone(), delay);
                }
                self.failed(taken, running, &error);
            }
        }
    }

    fn failed(&self, taken: Taken<C::Key>, running: &Running, error: &SyncError) {
        let failures = self.queue.retries(taken.key());
        if matches!(self.give_up, GiveUp::AfterFailures(most) if failures >= most) {
            tracing::error!(%error, failures, "Dropping key out of the queue until its next event");
            running.metrics.dropped(running.controller);
            taken.finish();
            return;
        }
        let retry_in = taken.retry();
        if error.is_end_of_leadership() {
            // Not a fault: this process is about to stop leading.
            tracing::debug!(%error, "Sync ended");
        } else {
            tracing::warn!(%error, failures, ?retry_in, "Sync failed, will be tried again");
        }
    }
}

impl<C: Controller> Run for QueueLoop<C> {
    fn run(self: Arc<Self>, running: Running, stop: CancellationToken) -> BoxFuture<'static, ()> {
        async move {
            self.controller.term_begins();
            let mut workers = JoinSet::new();
            for worker in 0..self.posts.len() {
                let (this, running, stop) = (Arc::clone(&self), running.clone(), stop.clone());
                let span = tracing::info_span!("worker", controller = running.controller, worker);
                let work = async move {
                    restarting(&running, &stop, || this.work(worker, &running, &stop)).await;
                };
                workers.spawn(work.instrument(span));
            }
            workers.join_all().await;
        }
        .boxed()
    }

    /// Throws away what mappings add, lest keys of long gone objects pile up.
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
}
