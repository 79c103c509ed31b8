//! The work queue between event handlers and the workers of a controller (client-go's `util/workqueue`).
//!
//! Handlers put *keys* in, never objects: a worker reads the newest state from the cache when its turn comes, so a
//! thousand events about one object cost one sync. What holds, whoever calls what and when:
//!
//! - **Once.** A key stands in the queue at most once, however often it is added.
//! - **Never twice at a time.** A key is with at most one worker. Added meanwhile, it comes again after that work.
//! - **Nothing is lost.** Every [`add`](WorkQueue::add) is followed by a hand-out that begins after it.
//! - **In order.** Highest priority first, first come first served among equals.
//! - **Later.** [`add_after`](WorkQueue::add_after) adds when its time has come; of two delays the earlier end holds.
//!   An `add` does not cancel a delay. A delayed key is counted nowhere until it is due.
//! - **Put aside.** A worker whose cache is behind its own writes [parks](Taken::park) the key. [`wake`](WorkQueue::wake),
//!   any add, or a deadline brings it back, without back-off.
//! - **The end.** After [`shut_down`](WorkQueue::shut_down) adds are ignored, delayed and parked keys are dropped,
//!   queued ones are still handed out, and then every `get` answers `None`.
//!
//! No task runs behind the queue: the timer of delayed and parked keys is driven by whoever awaits
//! [`get`](WorkQueue::get), and every other call first moves what is due. So there is nothing to supervise or to stop.
//!
//! # Parking without a lost wake-up
//!
//! A sync looks at the cache, finds it behind, and parks; the awaited write may land in between. The queue remembers
//! for each key in work whether it was added or woken since it was handed out; such a key is queued when it is parked.
//! One thing is asked of the store: it must call `wake` (or `add`) only once readers can see the write, or while
//! readers are locked out. Then a sync that looked too early is always woken after its look.
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
mod taken;
#[cfg(test)]
mod tests;

pub use metrics::{Error, MetricsProvider};
pub use queue::WorkQueue;
pub use rate_limiting::{
    ItemExponential, MaxOf, OncePerWindow, RateLimiter, TokenBucket, default_controller_rate_limiter,
};
pub use taken::Taken;

/// What a queue can hold. Cloned a few times while it is queued, so a key should be cheap to clone.
pub trait Key: Clone + Eq + Hash + Send + 'static {}
impl<T: Clone + Eq + Hash + Send + 'static> Key for T {}

/// The order in which keys are handed out: the greatest first. `()` makes the queue first come first served.
pub trait Priority: Ord + Clone + Send + 'static {}
impl<T: Ord + Clone + Send + 'static> Priority for T {}

/// How a [`WorkQueue`] is set up.
pub struct QueueConfig<K> {
    /// The label `name` of the metrics: upstream's name for the queue (`job`, `endpoint`, ...).
    pub name: String,
    /// How long a key waits after a failure. Default: [`default_controller_rate_limiter`].
    pub limiter: Box<dyn RateLimiter<K>>,
    /// Where the queue is counted. Default: nowhere.
    pub metrics: Option<MetricsProvider>,
}

impl<K: Key> QueueConfig<K> {
    /// The defaults, under this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), limiter: Box::new(default_controller_rate_limiter()), metrics: None }
    }

    /// With this back-off in place of the default.
    pub fn limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.limiter = Box::new(limiter);
        self
    }

    /// Counted by this provider.
    pub fn metrics(mut self, provider: &MetricsProvider) -> Self {
        self.metrics = Some(provider.clone());
        self
    }
}
