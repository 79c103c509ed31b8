//! Keys that come later.

use std::time::Duration;

use tokio::time::Instant;

use super::ordered::OrderedKeys;
use super::{Key, Priority, WorkQueue};

/// A delay that no clock can hold stands for "not in this process's life".
const FAR_AWAY: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Keys that wait for a moment, each once: the earliest moment and the highest priority asked for hold.
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

    /// The next key whose moment has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(K, Instant, P)> {
        self.next().filter(|at| *at <= now).and_then(|_| self.by_moment.pop_first())
    }

    /// When the next key is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_moment.first().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.by_moment.len()
    }
}

/// The moment `delay` from now.
pub(super) fn moment(now: Instant, delay: Duration) -> Instant {
    now.checked_add(delay).unwrap_or_else(|| now + FAR_AWAY)
}

impl<K: Key, P: Priority> WorkQueue<K, P> {
    /// Adds the key once `delay` has passed, or now if that is zero. A key that waits already keeps the earlier moment;
    /// an [`add`](Self::add) meanwhile does not cancel it. Counted in `workqueue_retries_total`, as upstream does.
    pub fn add_after(&self, key: K, delay: Duration)
    where
        P: Default,
    {
        self.add_after_with_priority(key, delay, P::default());
    }

    /// [`add_after`](Self::add_after), for a queue with priorities; the highest one asked for holds.
    pub fn add_after_with_priority(&self, key: K, delay: Duration, priority: P) {
        self.shared().add_after(key, delay, priority);
    }

    /// How many keys wait for a delay to pass.
    pub fn waiting_len(&self) -> usize {
        self.shared().update(|state, _| state.waiting_len())
    }
}
