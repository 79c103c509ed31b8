//! The keys that workers are syncing, and since when.

use std::fmt::{Display, Formatter};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_client::limits::Waits;
use steersman_informer::AnyInformer;
use steersman_informer::reflector::Progress;
use tokio::time::Instant;

use super::failures::shortened;

/// A worker that is syncing a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// The name of the worker's loop.
    pub loop_name: String,
    /// The worker's number in its loop, from 0.
    pub worker: usize,
    /// The key, shortened to 1 KiB.
    pub key: String,
    /// How long the sync has been running.
    pub running_for: Duration,
    /// How long ago the sync last made progress: it observed, finished a step, or waited for the rate limit of its client. If
    /// this is long, the worker is stuck; `running_for` does not tell, since a sync of five hundred steps may take minutes.
    pub silent_for: Duration,
}

impl Display for Busy {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { loop_name, worker, key, running_for, silent_for } = self;
        let (running_for, silent_for) = (running_for.as_secs(), silent_for.as_secs());
        write!(
            f,
            "worker {worker} of {loop_name} has been on {key} for {running_for}s, {silent_for}s without progress"
        )
    }
}

/// The health of a controller.
#[derive(Clone, Debug)]
pub struct ControllerHealth {
    /// The controller's name.
    pub controller: &'static str,
    /// The controller's caches that have not synced.
    pub unsynced: Vec<String>,
    /// The controller's caches that have synced, and how they are kept up to date.
    pub caches: Vec<CacheHealth>,
    /// The controller's workers that are syncing a key.
    pub busy: Vec<Busy>,
}

/// How a cache is kept up to date.
#[derive(Clone, Debug)]
pub struct CacheHealth {
    /// The resource.
    pub resource: String,
    /// How the informer's reflector is doing.
    pub progress: Progress,
}

impl CacheHealth {
    pub(super) fn of(cache: &Arc<dyn AnyInformer>) -> Self {
        Self { resource: cache.resource().to_string(), progress: cache.progress() }
    }
}

impl ControllerHealth {
    /// The workers without progress for longer than `threshold`.
    pub fn stuck(&self, threshold: Duration) -> impl Iterator<Item = &Busy> {
        self.busy.iter().filter(move |busy| busy.silent_for > threshold)
    }
}

/// The current sync of one worker.
pub(super) struct Post<K> {
    work: Mutex<Option<Work<K>>>,
    /// When its calls wait for the rate limit of their client.
    waits: Arc<Waits>,
}

struct Work<K> {
    key: K,
    begun: Instant,
    progress: Instant,
}

/// Marks a worker as busy until it is dropped.
pub(super) struct AtWork<'a, K>(&'a Post<K>);

impl<K: Clone + Display> Post<K> {
    pub(super) fn new() -> Self {
        Self { work: Mutex::new(None), waits: Arc::default() }
    }

    pub(super) fn begin(&self, key: &K) -> AtWork<'_, K> {
        let now = Instant::now();
        *self.work.lock() = Some(Work { key: key.clone(), begun: now, progress: now });
        AtWork(self)
    }

    /// The same sync, which records when its calls wait for the rate limit.
    pub(super) fn recording<F: Future>(&self, sync: F) -> impl Future<Output = F::Output> + use<F, K> {
        self.waits.of(sync)
    }

    pub(super) fn look(&self, loop_name: &str, worker: usize) -> Option<Busy> {
        let work = self.work.lock();
        let waited = self.waits.last().unwrap_or(Duration::MAX);
        work.as_ref().map(|work| Busy {
            loop_name: loop_name.to_owned(),
            worker,
            key: shortened(work.key.to_string()),
            running_for: work.begun.elapsed(),
            silent_for: work.progress.elapsed().min(waited),
        })
    }
}

impl<K> AtWork<'_, K> {
    pub(super) fn progress(&self) {
        if let Some(work) = &mut *self.0.work.lock() {
            work.progress = Instant::now();
        }
    }
}

impl<K> Drop for AtWork<'_, K> {
    fn drop(&mut self) {
        *self.0.work.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use steersman_client::Limits;
    use steersman_client::limits::Limiter;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sync_whose_calls_wait_for_their_turn_is_not_silent_and_one_whose_call_hangs_is() {
        let seconds = Duration::from_secs;
        // One call in 32 seconds.
        let limiter = Limiter::new(Limits::new(0.031_25, 1));
        limiter.acquire().await;
        let post = Post::new();
        let silence = |post: &Post<&str>| post.look("toys", 0).map(|busy| busy.silent_for);
        let _at_work = post.begin(&"a");
        let call = post.recording(async {
            limiter.acquire().await;
            pending::<()>().await;
        });
        let looks = async {
            sleep(seconds(30)).await;
            assert_eq!(silence(&post), Some(Duration::ZERO));
            sleep(seconds(32)).await;
            assert_eq!(silence(&post), Some(seconds(30)));
        };
        tokio::select! {
            () = call => {}
            () = looks => {}
        }
    }
}
