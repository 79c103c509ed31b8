//! A key that a worker has.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::delaying::moment;
use super::queue::Shared;
use super::state::{End, Handout};
use super::{Key, Priority};

/// A key that one worker has, and no other. Its work ends with one of the methods that consume this value, or when the value is
/// dropped, also by a panic. (Keep it outside of code that may panic, and call [`retry`](Self::retry) then.)
///
/// Dropping it leaves the key's back-off unchanged and does not queue the key again.
pub struct Taken<K: Key, P: Priority = ()> {
    shared: Arc<Shared<K, P>>,
    key: K,
    priority: P,
    park_deadline: Option<Instant>,
    taken_at: Instant,
    /// How the work ends, if `park` has set it.
    park_until: Option<Instant>,
}

impl<K: Key, P: Priority> Taken<K, P> {
    pub(super) fn new(shared: Arc<Shared<K, P>>, handout: Handout<K, P>) -> Self {
        let Handout { key, priority, park_deadline } = handout;
        Self { shared, key, priority, park_deadline, taken_at: Instant::now(), park_until: None }
    }

    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The key's priority when the worker got it.
    pub fn priority(&self) -> &P {
        &self.priority
    }

    /// Whether the time for which the key may be parked is over. If the cache is still behind, the worker must ask the API server.
    pub fn park_expired(&self) -> bool {
        self.park_deadline.is_some_and(|deadline| deadline <= self.taken_at)
    }

    /// Ends successful work, or gives the key up: its next failure counts as the first.
    pub fn finish(self) {
        self.shared.forget(&self.key);
    }

    /// Ends failed work: the key is queued again after the rate limiter's delay, which is returned, at the same priority.
    pub fn retry(self) -> Duration {
        self.shared.add_rate_limited(self.key.clone(), self.priority.clone())
    }

    /// Ends failed work as [`retry`](Self::retry) does, but queues the key again after `at_most` if the delay is longer. For
    /// failures that tell nothing about the key, such as those of an absent server.
    pub fn retry_within(self, at_most: Duration) -> Duration {
        self.shared.add_rate_limited_within(self.key.clone(), at_most, self.priority.clone())
    }

    /// Ends the work, and queues the key again after `delay`, at the same priority. Its back-off stays unchanged.
    pub fn requeue_after(self, delay: Duration) {
        self.shared.add_after(self.key.clone(), delay, self.priority.clone());
    }

    /// Parks the key, because the cache is behind: it is queued again, without back-off, by [`wake`](super::WorkQueue::wake), by
    /// any add, or after `at_most`. If it was added or woken since the worker got it, it is queued at once.
    ///
    /// `at_most` counts from the first park: if the key is woken and parked again, the time goes on, so that a stream of events
    /// can't delay the key for ever. Any other end of its work, and [`park_expired`](Self::park_expired), reset the time.
    pub fn park(mut self, at_most: Duration) {
        let until = moment(Instant::now(), at_most);
        self.park_until = Some(match self.park_deadline {
            Some(deadline) if !self.park_expired() => deadline.min(until),
            _ => until,
        });
    }
}

impl<K: Key, P: Priority> Drop for Taken<K, P> {
    fn drop(&mut self) {
        let (key, priority) = (self.key.clone(), self.priority.clone());
        let end = match self.park_until {
            Some(until) => End::Parked { until, priority },
            None => End::Done,
        };
        self.shared.update(|state, now| state.finish(key, end, now));
    }
}

impl<K: Key + fmt::Debug, P: Priority> fmt::Debug for Taken<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taken").field("key", &self.key).field("park_expired", &self.park_expired()).finish()
    }
}
