//! A key in the hands of a worker.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::delaying::moment;
use super::queue::Shared;
use super::state::{End, Handout};
use super::{Key, Priority};

/// A key that this worker, and no other, works on. Its end marks the work as done, however it comes about: by one of
/// the methods that consume it, by being dropped, or by a panic. (Keep it outside what may panic, to [`retry`](Self::retry) then.)
///
/// Dropped as it is, it leaves the key's back-off as it was and asks for no further work.
pub struct Taken<K: Key, P: Priority = ()> {
    shared: Arc<Shared<K, P>>,
    key: K,
    priority: P,
    park_deadline: Option<Instant>,
    taken_at: Instant,
    /// Set by `park`: how to end instead of plainly.
    park_until: Option<Instant>,
}

impl<K: Key, P: Priority> Taken<K, P> {
    pub(super) fn new(shared: Arc<Shared<K, P>>, handout: Handout<K, P>) -> Self {
        let Handout { key, priority, park_deadline } = handout;
        Self { shared, key, priority, park_deadline, taken_at: Instant::now(), park_until: None }
    }

    /// The key to work on.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The priority at which it was handed out.
    pub fn priority(&self) -> &P {
        &self.priority
    }

    /// Whether the time for which it may be parked has run out: if the cache is still behind, what it lacks must be
    /// asked of the server.
    pub fn park_expired(&self) -> bool {
        self.park_deadline.is_some_and(|deadline| deadline <= self.taken_at)
    }

    /// The work succeeded (or is given up): the next failure of this key counts as the first.
    pub fn finish(self) {
        self.shared.forget(&self.key);
    }

    /// The work failed: the key comes again after the time the rate limiter says, which is returned, at the same
    /// priority.
    pub fn retry(self) -> Duration {
        self.shared.add_rate_limited(self.key.clone(), self.priority.clone())
    }

    /// The key comes again after `delay`, at the same priority. Its back-off stays as it was.
    pub fn requeue_after(self, delay: Duration) {
        self.shared.add_after(self.key.clone(), delay, self.priority.clone());
    }

    /// The cache is behind what the key needs to see: puts the key aside, without back-off, until
    /// [`wake`](super::WorkQueue::wake), any add, or the passing of `at_most`. If it was added or woken since it was
    /// handed out, it is queued at once instead.
    ///
    /// `at_most` counts from the first park: if the key is woken, found behind again and parked again, the time runs
    /// on, so that a stream of events cannot keep it behind for ever. Any other end of its work, and
    /// [`park_expired`](Self::park_expired), start it afresh.
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
