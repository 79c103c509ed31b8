//! Delayed keys.

use std::time::Duration;

use tokio::time::Instant;

use super::ordered::OrderedKeys;
use super::{Key, Priority, WorkQueue};

/// Stands for delays that are too long for the clock: longer than the process will live.
const FAR_AWAY: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Delayed keys, each once, with the earliest time and the highest priority that callers asked for.
pub(super) struct Waiting<K, P> {
    by_moment: OrderedKeys<K, Instant, P>,
}

impl<K, P> Default for Waiting<K, P> {
    fn default() -> Self {
        Self { by_moment: OrderedKeys::default() }
    }
}

impl<K: Key, P: Priority> Waiting<K, P> {
    pub(super) fn put(&mut self, key: K, at: Instant, priority: P) {
        let (at, priority) = match self.by_moment.get(&key) {
            Some((&earlier, known)) => (at.min(earlier), priority.max(known.clone())),
            None => (at, priority),
        };
        self.by_moment.insert(key, at, priority);
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<(Instant, P)> {
        self.by_moment.remove(key)
    }

    /// Removes and returns the next key that is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(K, Instant, P)> {
        self.next().filter(|at| *at <= now).and_then(|_| self.by_moment.pop_first())
    }

    /// When the next key is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_moment.first().copied()
    }

    /// The keys and their times, the earliest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, Instant)> {
        self.by_moment.iter().map(|(key, at)| (key, *at))
    }

    pub(super) fn len(&self) -> usize {
        self.by_moment.len()
    }
}

/// The time after `delay` from now.
pub(super) fn moment(now: Instant, delay: Duration) -> Instant {
    now.checked_add(delay).unwrap_or_else(|| now + FAR_AWAY)
}

impl<K: Key, P: Priority> WorkQueue<K, P> {
    /// Adds the key after `delay`, or now if that is zero. A key that is delayed already keeps the earlier time; an
    /// [`add`](Self::add) meanwhile does not cancel it. Counts in `workqueue_retries_total`, as upstream.
    pub fn add_after(&self, key: K, delay: Duration)
    where
        P: Default,
    {
        self.add_after_with_priority(key, delay, P::default());
    }

    /// As [`add_after`](Self::add_after), with a priority. The highest of a key's priorities counts.
    pub fn add_after_with_priority(&self, key: K, delay: Duration, priority: P) {
        self.shared().add_after(key, delay, priority);
    }

    /// The number of delayed keys.
    pub fn waiting_len(&self) -> usize {
        self.shared().update(|state, _| state.waiting_len())
    }
}
