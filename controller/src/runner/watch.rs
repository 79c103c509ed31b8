//! The keys that workers are syncing, and since when.

use std::fmt::{Display, Formatter};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A worker that is syncing a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// The name of the worker's loop.
    pub loop_name: String,
    /// The worker's number in its loop, from 0.
    pub worker: usize,
    /// The key.
    pub key: String,
    /// How long the sync has been running.
    pub running_for: Duration,
    /// How long ago the sync last made progress: it observed, or finished a step. If this is long, the worker is stuck;
    /// `running_for` does not tell, since a sync of five hundred steps may take minutes.
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
    /// The controller's workers that are syncing a key.
    pub busy: Vec<Busy>,
}

impl ControllerHealth {
    /// The workers without progress for longer than `threshold`.
    pub fn stuck(&self, threshold: Duration) -> impl Iterator<Item = &Busy> {
        self.busy.iter().filter(move |busy| busy.silent_for > threshold)
    }
}

/// The current sync of one worker.
pub(super) struct Post<K>(Mutex<Option<Work<K>>>);

struct Work<K> {
    key: K,
    begun: Instant,
    progress: Instant,
}

/// Marks a worker as busy until it is dropped.
pub(super) struct AtWork<'a, K>(&'a Post<K>);

impl<K: Clone + Display> Post<K> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(None))
    }

    pub(super) fn begin(&self, key: &K) -> AtWork<'_, K> {
        let now = Instant::now();
        *self.0.lock() = Some(Work { key: key.clone(), begun: now, progress: now });
        AtWork(self)
    }

    pub(super) fn look(&self, loop_name: &str, worker: usize) -> Option<Busy> {
        let work = self.0.lock();
        work.as_ref().map(|work| Busy {
            loop_name: loop_name.to_owned(),
            worker,
            key: work.key.to_string(),
            running_for: work.begun.elapsed(),
            silent_for: work.progress.elapsed(),
        })
    }
}

impl<K> AtWork<'_, K> {
    pub(super) fn progress(&self) {
        if let Some(work) = &mut *self.0.0.lock() {
            work.progress = Instant::now();
        }
    }
}

impl<K> Drop for AtWork<'_, K> {
    fn drop(&mut self) {
        *self.0.0.lock() = None;
    }
}
