//! What people see of controllers who look into a running process.

use std::fmt;
use std::time::Duration;

use super::{Busy, Failure};
use crate::own_writes::Awaited;

/// Maximum number of entries in each list of a [`LoopStatus`].
pub(super) const LISTED: usize = 20;

/// A controller that does not run in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disabled {
    /// The controller's name.
    pub controller: &'static str,
    /// Why it does not run.
    pub reason: String,
}

/// What a controller is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// This process does not lead.
    StandingBy,
    /// It waits for a random time, so that not all controllers start at once.
    Starting,
    /// Its loops start once its caches have synced.
    WaitingForCaches,
    /// Its loops run.
    Running,
    /// All of its loops have ended by themselves.
    Ended,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StandingBy => "standing by",
            Self::Starting => "starting",
            Self::WaitingForCaches => "waiting for caches",
            Self::Running => "running",
            Self::Ended => "ended",
        })
    }
}

/// A controller at one moment.
#[derive(Clone, Debug)]
pub struct ControllerStatus {
    /// The controller's name.
    pub controller: &'static str,
    /// What it is doing.
    pub stage: Stage,
    /// How long it has been doing that.
    pub in_stage: Duration,
    /// The resources of the caches that must sync before its loops start.
    pub caches: Vec<String>,
    /// Those of them that have not synced.
    pub unsynced: Vec<String>,
    /// Its loops.
    pub loops: Vec<LoopStatus>,
}

/// A loop of a controller at one moment. Each list has 20 entries at most.
#[derive(Clone, Debug)]
pub struct LoopStatus {
    /// The name of the loop's queue, the key that it syncs periodically, or the name of its task.
    pub name: String,
    /// The loop's sort.
    pub sort: LoopSort,
    /// The number of workers that are syncing a key.
    pub busy_workers: usize,
    /// These workers, the one with the longest silence first.
    pub busy: Vec<Busy>,
    /// The keys that failed last, the last one first.
    pub failures: Vec<Failure>,
}

/// What a loop is made of.
#[derive(Clone, Debug)]
pub enum LoopSort {
    /// Workers that take keys from a queue.
    Queue(QueueState),
    /// One key, which is synced again and again.
    Periodic {
        /// The time between two syncs.
        period: Duration,
    },
    /// A future of the controller's own.
    Task,
}

/// The queue of a loop at one moment. Each list has 20 entries at most.
#[derive(Clone, Debug)]
pub struct QueueState {
    /// The number of workers.
    pub workers: usize,
    /// The number of queued keys.
    pub depth: usize,
    /// The number of keys that failed and have not succeeded since.
    pub failing: usize,
    /// The number of keys that will be queued after a delay, whether they failed or not.
    pub delayed: usize,
    /// The number of keys that wait until a cache shows the controller's own writes.
    pub parked: usize,
    /// How long a worker has had the key that was taken first.
    pub longest_running: Option<Duration>,
    /// The first keys to be retried after failures.
    pub retries: Vec<RetryState>,
    /// Keys that wait until a cache shows the controller's own writes.
    pub waiting: Vec<WaitingState>,
}

/// A key that will be retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryState {
    /// The key.
    pub key: String,
    /// The number of its failures.
    pub failures: u32,
    /// The time until it is queued again.
    pub due_in: Duration,
}

/// A key that waits until a cache shows the controller's own writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingState {
    /// The key.
    pub key: String,
    /// The time until it is synced at the latest.
    pub at_most: Duration,
    /// The writes.
    pub awaited: Vec<Awaited>,
}

impl LoopStatus {
    pub(super) fn new(name: &str, sort: LoopSort, mut busy: Vec<Busy>, failures: Vec<Failure>) -> Self {
        let busy_workers = busy.len();
        busy.sort_by_key(|busy| std::cmp::Reverse(busy.silent_for));
        busy.truncate(LISTED);
        Self { name: name.to_owned(), sort, busy_workers, busy, failures }
    }
}
