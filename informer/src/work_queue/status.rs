//! What people see of a queue who look into a running process.

use std::time::Duration;

use tokio::time::Instant;

use super::state::State;
use super::{Key, Priority, WorkQueue};

/// The number of delayed keys, those that are due first, among which [`WorkQueue::status`] looks for failed ones. Delayed keys
/// need not have failed: controllers also ask for a key again later.
const LOOKED_AT: usize = 1_000;

/// A queue at one moment.
#[derive(Clone, Debug)]
pub struct QueueStatus<K> {
    /// The number of queued keys.
    pub depth: usize,
    /// The number of delayed keys: those that failed, and those that a controller asked for again later.
    pub delayed: usize,
    /// The number of parked keys.
    pub parked: usize,
    /// The number of keys that failed and have not succeeded since, as far as the rate limiter
    /// [counts them](super::RateLimiter::failing).
    pub failing: usize,
    /// The key that a worker has had longest, and for how long.
    pub longest_running: Option<(K, Duration)>,
    /// The first keys to be retried after failures.
    pub retries: Vec<Retry<K>>,
    /// The parked keys whose deadlines come first, with the time until then.
    pub first_parked: Vec<(K, Duration)>,
}

/// A key that waits for another attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry<K> {
    /// The key.
    pub key: K,
    /// The number of its failures.
    pub failures: u32,
    /// The time until it is queued again.
    pub due_in: Duration,
}

/// What [`State`] alone knows, with the delayed keys that are due first.
pub(super) struct Look<K> {
    status: QueueStatus<K>,
    delayed: Vec<(K, Duration)>,
}

impl<K: Key, P: Priority> State<K, P> {
    pub(super) fn look(&self, at_most: usize, now: Instant) -> Look<K> {
        let left = |(key, at): (&K, Instant)| (key.clone(), at.saturating_duration_since(now));
        let status = QueueStatus {
            depth: self.len(),
            delayed: self.waiting_len(),
            parked: self.parked_len(),
            failing: 0,
            longest_running: self.longest_running(now),
            retries: Vec::new(),
            first_parked: self.parked().take(at_most).map(left).collect(),
        };
        Look { status, delayed: self.waiting().take(LOOKED_AT).map(left).collect() }
    }
}

impl<K: Key, P: Priority> WorkQueue<K, P> {
    /// The state of the queue, with at most so many keys in each list. Workers wait while a thousand keys are copied at most.
    pub fn status(&self, at_most: usize) -> QueueStatus<K> {
        let Look { mut status, delayed } = self.shared().update(|state, now| state.look(at_most, now));
        status.failing = self.failing();
        if status.failing == 0 {
            return status;
        }
        let failed = delayed.into_iter().filter_map(|(key, due_in)| {
            let failures = self.retries(&key);
            (failures > 0).then_some(Retry { key, failures, due_in })
        });
        status.retries = failed.take(at_most).collect();
        status
    }
}
