//! The queue: the rules of [`State`] behind a lock, and the notification of waiting workers.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, timeout_at};

use super::delaying::moment;
use super::metrics::{Observed, QueueMetrics, Snapshot};
use super::rate_limiting::RateLimiter;
use super::state::{Next, State};
use super::taken::Taken;
use super::{Key, Priority, QueueConfig};

/// A handle on a work queue. Clones share the queue. The [module](super) says what the queue guarantees.
///
/// All methods except [`get`](Self::get) and [`shut_down_with_drain`](Self::shut_down_with_drain) return at once, and can be
/// called from any thread.
pub struct WorkQueue<K: Key, P: Priority = ()> {
    shared: Arc<Shared<K, P>>,
}

/// The state that handles and workers' keys share. No method holds two locks: the limiter is never called while `state` is
/// locked.
pub(super) struct Shared<K, P> {
    name: String,
    limiter: Box<dyn RateLimiter<K>>,
    metrics: QueueMetrics,
    state: Mutex<State<K, P>>,
    /// Wakes one waiting worker for each key that is queued, and all of them when their timers would be too late or the queue
    /// shuts down. So no worker waits beyond the earliest time at which a key is due, whichever worker takes a key or is
    /// cancelled.
    ready: Notify,
    /// Wakes all callers that wait for a drain once it is over.
    drained: Notify,
}

impl<K: Key, P: Priority> Clone for WorkQueue<K, P> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Key, P: Priority> WorkQueue<K, P> {
    /// Makes an empty queue.
    pub fn new(config: QueueConfig<K>) -> Self {
        let metrics =
            config.metrics.as_ref().map(|provider| provider.queue(&config.name)).unwrap_or_default();
        let shared = Arc::new(Shared {
            limiter: config.limiter,
            state: Mutex::new(State::new(metrics.clone())),
            metrics,
            ready: Notify::new(),
            drained: Notify::new(),
            name: config.name,
        });
        if let Some(provider) = &config.metrics {
            let observed: Arc<dyn Observed> = shared.clone();
            provider.observe(&shared.name, &observed);
        }
        Self { shared }
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Adds a key. A key that is queued already keeps its place; a key that a worker has is queued again afterwards; a parked key
    /// is queued at once, and its worker parks it again if the cache is still behind.
    pub fn add(&self, key: K)
    where
        P: Default,
    {
        self.add_with_priority(key, P::default());
    }

    /// As [`add`](Self::add), with a priority. A queued key moves up if this priority is higher, and never down.
    pub fn add_with_priority(&self, key: K, priority: P) {
        self.shared.add(key, priority);
    }

    /// As [`add_after`](Self::add_after), with the rate limiter's delay, which is returned. For a key that the caller has, see
    /// [`Taken::retry`].
    pub fn add_rate_limited(&self, key: K) -> Duration
    where
        P: Default,
    {
        self.shared.add_rate_limited(key, P::default())
    }

    /// Ends the key's back-off: its next failure counts as the first. For a key that the caller has, see [`Taken::finish`].
    pub fn forget(&self, key: &K) {
        self.shared.limiter.forget(key);
    }

    /// The number of the key's failures since its back-off began.
    pub fn retries(&self, key: &K) -> u32 {
        self.shared.limiter.retries(key)
    }

    /// The number of keys that failed and have not succeeded since, as far as the rate limiter counts them.
    pub fn failing(&self) -> usize {
        self.shared.limiter.failing()
    }

    /// Queues the key if it is [parked](Taken::park). If a worker has it, the worker's next attempt to park it queues it instead.
    /// Ignores other keys. The store calls this when it has a change that the key may wait for.
    pub fn wake(&self, key: &K) {
        self.shared.update(|state, now| state.wake(key, now));
    }

    /// Waits for the next key. `None` once the queue is shut down and empty. Cancel-safe.
    ///
    /// Awaiting this drives the timer of delayed and parked keys, so idle workers should always await it.
    pub async fn get(&self) -> Option<Taken<K, P>> {
        loop {
            // Syncs that never wait must still yield to other tasks.
            consume_budget().await;
            // Registers for notification before the check, so that none between the check and the wait is missed: if two keys
            // are queued then, both must wake a worker.
            let mut news = pin!(self.shared.ready.notified());
            news.as_mut().enable();
            match self.shared.update(State::take) {
                Next::Work(handout) => return Some(Taken::new(Arc::clone(&self.shared), handout)),
                Next::End => return None,
                Next::Nothing(None) => news.await,
                // Timer or notification: check again either way.
                Next::Nothing(Some(due)) => drop(timeout_at(due, news).await),
            }
        }
    }

    /// Shuts the queue down: ignores adds from now on, and drops delayed and parked keys. Workers get the remaining queued keys,
    /// and then `None`. Also ends all waits for a drain.
    pub fn shut_down(&self) {
        self.shared.update(|state, _| state.shut_down());
        self.shared.ready.notify_waiters();
        self.shared.drained.notify_waiters();
    }

    /// Shuts the queue down as [`shut_down`](Self::shut_down) does, and waits until no key is queued or with a worker, or until
    /// `shut_down` is called. Workers must keep taking keys meanwhile; use a timeout if they may not. (Upstream waits only for
    /// the keys that workers have.)
    pub async fn shut_down_with_drain(&self) {
        self.shared.update(|state, _| state.drain());
        self.shared.ready.notify_waiters();
        loop {
            let over = self.shared.drained.notified();
            if self.shared.update(|state, _| state.is_drained()) {
                return;
            }
            over.await;
        }
    }

    /// Whether the queue has been shut down.
    pub fn is_shut_down(&self) -> bool {
        self.shared.update(|state, _| state.is_shut_down())
    }

    /// The number of queued keys. It may have changed by the time the caller reads it.
    pub fn len(&self) -> usize {
        self.shared.update(|state, _| state.len())
    }

    /// Whether no key is queued. Like [`len`](Self::len), it may have changed by the time the caller reads it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of parked keys.
    pub fn parked_len(&self) -> usize {
        self.shared.update(|state, _| state.parked_len())
    }

    /// The key that a worker has had longest, and for how long. Diagnostics of stuck workers name it.
    pub fn longest_running(&self) -> Option<(K, Duration)> {
        self.shared.update(|state, now| state.longest_running(now))
    }

    pub(super) fn shared(&self) -> &Shared<K, P> {
        &self.shared
    }
}

impl<K: Key, P: Priority> Shared<K, P> {
    /// Queues the keys that are due, makes one change, both under the lock, and then notifies waiting callers.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut State<K, P>, Instant) -> T) -> T {
        let mut state = self.state.lock();
        // Read the clock under the lock, so that time does not run backwards from one change to the next.
        let now = Instant::now();
        let due_before = state.next_due();
        state.release_due(now);
        let result = change(&mut state, now);
        let pushed = state.take_pushed();
        let due_sooner = state.next_due().is_some_and(|due| due_before.is_none_or(|before| due < before));
        let drained = state.is_shut_down() && state.is_drained();
        drop(state);

        if due_sooner {
            self.ready.notify_waiters();
        }
        (0..pushed).for_each(|_| self.ready.notify_one());
        if drained {
            self.drained.notify_waiters();
        }
        result
    }

    pub(super) fn add(&self, key: K, priority: P) {
        self.update(|state, now| state.add(key, priority, now));
    }

    pub(super) fn add_after(&self, key: K, delay: Duration, priority: P) {
        let counted = self.update(|state, now| {
            let open = !state.is_shut_down();
            match delay {
                Duration::ZERO => state.add(key, priority, now),
                delay => state.add_at(key, priority, moment(now, delay)),
            }
            open
        });
        if counted {
            self.metrics.retried();
        }
    }

    pub(super) fn add_rate_limited(&self, key: K, priority: P) -> Duration {
        self.add_rate_limited_within(key, Duration::MAX, priority)
    }

    pub(super) fn add_rate_limited_within(&self, key: K, at_most: Duration, priority: P) -> Duration {
        let delay = self.limiter.when(&key).min(at_most);
        self.add_after(key, delay, priority);
        delay
    }

    pub(super) fn forget(&self, key: &K) {
        self.limiter.forget(key);
    }
}

impl<K: Key, P: Priority> Observed for Shared<K, P> {
    fn snapshot(&self) -> Snapshot {
        self.update(|state, now| state.snapshot(now))
    }
}
