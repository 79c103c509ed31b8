//! The work queue between event handlers and the workers of a controller (client-go's `util/workqueue`).
//!
//! Handlers add *keys*, never objects: a worker reads the newest state from the cache when it gets the key, so a thousand
//! events about one object cost one sync. The queue guarantees:
//!
//! - **Once.** A key is in the queue at most once, however often it is added.
//! - **One worker.** At most one worker has a key at a time. If the key is added meanwhile, it is queued again afterwards.
//! - **Nothing is lost.** After every [`add`](WorkQueue::add), a worker gets the key.
//! - **In order.** Workers get the key of the highest priority first; among equals, the one that was added first.
//! - **Delays.** [`add_after`](WorkQueue::add_after) adds a key after a delay; of two delays the earlier end counts. An `add`
//!   does not cancel a delay. A delayed key does not count as queued until it is due.
//! - **Parking.** A worker whose cache is behind its own writes [parks](Taken::park) the key. [`wake`](WorkQueue::wake), any
//!   add, or a deadline queues it again, without back-off.
//! - **Shutdown.** After [`shut_down`](WorkQueue::shut_down) the queue ignores adds and drops delayed and parked keys. Workers
//!   still get the queued keys; then every `get` returns `None`.
//!
//! The queue has no task of its own: the callers that await [`get`](WorkQueue::get) drive the timer of delayed and parked keys,
//! and every other call first queues the keys that are due. So there is no task to supervise or to stop.
//!
//! # Parking without a lost wake-up
//!
//! A sync reads the cache, finds it behind, and parks; the awaited write may arrive in between. So the queue remembers for each
//! key with a worker whether it was added or woken since the worker got it. Such a key is queued at once instead of being
//! parked. The store must call `wake` (or `add`) only once readers can see the write, or while readers are locked out. Then a
//! sync that read too early is always woken after its read.
//!
//! # A worker
//!
//! ```
//! # use std::time::Duration;
//! # use steersman_informer::work_queue::{QueueConfig, WorkQueue};
//! # enum Outcome { Synced, CacheBehind, Failed }
//! # async fn sync(_key: &str) -> Outcome { Outcome::Synced }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let queue: WorkQueue<String> = WorkQueue::new(QueueConfig::new("job"));
//! queue.add("default/pi".to_owned());
//! queue.shut_down();
//! while let Some(taken) = queue.get().await {
//!     match sync(taken.key()).await {
//!         Outcome::Synced => taken.finish(),
//!         Outcome::CacheBehind => taken.park(Duration::from_secs(30)),
//!         Outcome::Failed => drop(taken.retry()),
//!     }
//! }
//! # }
//! ```

use std::hash::Hash;

mod delaying;
mod metrics;
mod ordered;
mod queue;
mod rate_limiting;
mod state;
mod status;
mod taken;
#[cfg(test)]
mod tests;

pub use metrics::{Error, MetricsProvider};
pub use queue::WorkQueue;
pub use rate_limiting::{
    ItemExponential, MaxOf, OncePerWindow, RateLimiter, TokenBucket, default_controller_rate_limiter,
};
pub use status::{QueueStatus, Retry};
pub use taken::Taken;

/// The type of a queue's keys. The queue clones keys, so they should be cheap to clone.
pub trait Key: Clone + Eq + Hash + Send + 'static {}
impl<T: Clone + Eq + Hash + Send + 'static> Key for T {}

/// The priority of a key. Workers get the key of the greatest priority first. With `()` the queue is first in, first out.
pub trait Priority: Ord + Clone + Send + 'static {}
impl<T: Ord + Clone + Send + 'static> Priority for T {}

/// The configuration of a [`WorkQueue`].
pub struct QueueConfig<K> {
    /// The label `name` of the metrics: upstream's name of the queue (`job`, `endpoint`, ...).
    pub name: String,
    /// How long a key waits after a failure. Default: [`default_controller_rate_limiter`].
    pub limiter: Box<dyn RateLimiter<K>>,
    /// Where the queue reports its metrics. Default: nowhere.
    pub metrics: Option<MetricsProvider>,
}

impl<K: Key> QueueConfig<K> {
    /// The default configuration, with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), limiter: Box::new(default_controller_rate_limiter()), metrics: None }
    }

    /// Sets the back-off.
    pub fn limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.limiter = Box::new(limiter);
        self
    }

    /// Sets the metrics provider.
    pub fn metrics(mut self, provider: &MetricsProvider) -> Self {
        self.metrics = Some(provider.clone());
        self
    }
}
