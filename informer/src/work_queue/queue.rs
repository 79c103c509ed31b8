//! The queue itself: the rules of [`State`] behind a lock, and who is told when something changed.

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

/// A handle on a work queue; clones share the queue. The [module](super) says what the queue promises.
///
/// All calls but [`get`](Self::get) and [`shut_down_with_drain`](Self::shut_down_with_drain) return at once, and may
/// come from any thread.
pub struct WorkQueue<K: Key, P: Priority = ()> {
    shared: Arc<Shared<K, P>>,
}

/// What the handles and the keys in work share. Locks are taken one at a time: no call is made into the limiter while
/// `state` is locked.
pub(super) struct Shared<K, P> {
    name: String,
    limiter: Box<dyn RateLimiter<K>>,
    metrics: QueueMetrics,
    state: Mutex<State<K, P>>,
    /// Told once for each key that is queued; and to all who wait, when the timer they wait with is too late or the
    /// queue is shut down. So nobody ever waits beyond the earliest moment at which something is due, whichever of the
    /// waiting workers takes a key or is cancelled.
    ready: Notify,
    /// Told to all who wait once a drain is over.
    drained: Notify,
}

impl<K: Key, P: Priority> Clone for WorkQueue<K, P> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Key, P: Priority> WorkQueue<K, P> {
    /// An empty queue.
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

    /// The name it was made under.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Asks for work on the key. A key that is queued already stays where it is; one that is being worked on comes
    /// again afterwards; a parked one comes at once, and its worker parks it again if the cache is still behind.
    pub fn add(&self, key: K)
    where
        P: Default,
    {
        self.add_with_priority(key, P::default());
    }

    /// [`add`](Self::add), for a queue with priorities: a queued key moves up if this one is higher, never down.
    pub fn add_with_priority(&self, key: K, priority: P) {
        self.shared.add(key, priority);
    }

    /// [`add_after`](Self::add_after) the time the rate limiter says; returned. For a key in hand, see
    /// [`Taken::retry`].
    pub fn add_rate_limited(&self, key: K) -> Duration
    where
        P: Default,
    {
        self.shared.add_rate_limited(key, P::default())
    }

    /// Ends the back-off of the key: its next failure counts as the first. For a key in hand, see [`Taken::finish`].
    pub fn forget(&self, key: &K) {
        self.shared.limiter.forget(key);
    }

    /// How many steps of back-off the key has behind it.
    pub fn retries(&self, key: &K) -> u32 {
        self.shared.limiter.retries(key)
    }

    /// The store has something that a [parked](Taken::park) key may have waited for: queues it if it is parked, and if
    /// it is in work sees to it that it cannot be parked past this. Nothing happens to any other key.
    pub fn wake(&self, key: &K) {
        self.shared.update(|state, now| state.wake(key, now));
    }

    /// The next key, once there is one; `None` once the queue is shut down and empty. Cancelling it loses no key.
    ///
    /// Awaiting it drives the timer of delayed and parked keys, so somebody should, whenever they are not at work.
    pub async fn get(&self) -> Option<Taken<K, P>> {
        loop {
            // Syncs that never wait for anything must still leave the thread to others now and then.
            consume_budget().await;
            // In line for news before the look, so that none between the look and the wait is missed: of two keys that are
            // queued then, both must find a worker.
            let mut news = pin!(self.shared.ready.notified());
            news.as_mut().enable();
            match self.shared.update(State::take) {
                Next::Work(handout) => return Some(Taken::new(Arc::clone(&self.shared), handout)),
                Next::End => return None,
                Next::Nothing(None) => news.await,
                // Time up or news: either way there is something to look at.
                Next::Nothing(Some(due)) => drop(timeout_at(due, news).await),
            }
        }
    }

    /// From now on adds are ignored, and delayed and parked keys are dropped. Workers go on with what is queued, and
    /// then get `None`. Releases whoever waits for a drain.
    pub fn shut_down(&self) {
        self.shared.update(|state, _| state.shut_down());
        self.shared.ready.notify_waiters();
        self.shared.drained.notify_waiters();
    }

    /// [`shut_down`](Self::shut_down), and waits until nothing is queued or in work any more, or until somebody calls
    /// `shut_down` itself. Workers must go on meanwhile; set a deadline around it if they may not. (Upstream waits
    /// only for what is in work.)
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

    /// How many keys stand in the queue. For information: it may have changed before the caller looks at it.
    pub fn len(&self) -> usize {
        self.shared.update(|state, _| state.len())
    }

    /// Whether no key stands in the queue; as [`len`](Self::len), for information.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys are parked.
    pub fn parked_len(&self) -> usize {
        self.shared.update(|state, _| state.parked_len())
    }

    /// The key that has been with its worker longest, and for how long: the one to name if a worker is stuck.
    pub fn longest_running(&self) -> Option<(K, Duration)> {
        self.shared.update(|state, now| state.longest_running(now))
    }

    pub(super) fn shared(&self) -> &Shared<K, P> {
        &self.shared
    }
}

impl<K: Key, P: Priority> Shared<K, P> {
    /// Makes one change under the lock, on a state in which everything due has been queued, and tells whom it concerns.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut State<K, P>, Instant) -> T) -> T {
        let mut state = self.state.lock();
        // Read under the lock, so that time never runs backwards from one change to the next.
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
        let delay = self.limiter.when(&key);
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
