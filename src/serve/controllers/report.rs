//! What `/debug/controllers` shows. The names of the fields are those in JSON, in camel case.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// The controllers and caches of this process at one moment.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// The time of the report, by RFC 3339.
    pub time: String,
    /// The version of this program.
    pub version: String,
    /// All controllers of kube-controller-manager, by name. Those that do not run come last.
    pub controllers: Vec<ControllerEntry>,
    /// The caches, the largest first.
    pub caches: Vec<CacheEntry>,
    /// The number of caches that are not in the list, because it would be too long.
    pub caches_left_off: usize,
}

/// A controller.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ControllerEntry {
    pub name: String,
    /// `disabled`, `standing by`, `starting`, `waiting for caches`, `running` or `ended`.
    pub state: String,
    /// Why it is disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(rename = "stateForSeconds", skip_serializing_if = "Option::is_none")]
    pub state_for: Option<Seconds>,
    /// Why `/readyz` fails for it.
    pub faults: Vec<String>,
    /// The caches that have not synced.
    pub waiting_for: Vec<String>,
    /// The caches that it waits for at its start.
    pub caches: Vec<String>,
    pub loops: Vec<LoopEntry>,
}

/// A loop of a controller.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoopEntry {
    /// The name of its queue, its periodic key, or its task.
    pub name: String,
    /// `queue`, `periodic` or `task`.
    pub kind: &'static str,
    /// The time between two syncs of a periodic loop.
    #[serde(rename = "periodSeconds", skip_serializing_if = "Option::is_none")]
    pub period: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueEntry>,
    /// The number of workers that are syncing a key.
    pub busy_workers: usize,
    /// These workers, the one with the longest silence first.
    pub busy: Vec<WorkerEntry>,
    /// The keys that failed last, the last one first.
    pub errors: Vec<ErrorEntry>,
}

/// The queue of a loop.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueEntry {
    /// The number of workers.
    pub workers: usize,
    /// The number of queued keys.
    pub depth: usize,
    /// The number of keys that failed and have not succeeded since.
    pub in_retry: usize,
    /// The number of keys that will be queued after a delay, failed or not.
    pub delayed: usize,
    /// The number of keys that wait for own writes.
    pub waiting_for_own_writes: usize,
    /// How long a worker has had the key that was taken first.
    #[serde(rename = "longestRunningSeconds", skip_serializing_if = "Option::is_none")]
    pub longest_running: Option<Seconds>,
    /// The first keys to be retried.
    pub retries: Vec<RetryEntry>,
    /// Keys that wait for own writes.
    pub own_writes: Vec<OwnWriteEntry>,
}

/// A worker that is syncing a key.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkerEntry {
    pub worker: usize,
    pub key: String,
    #[serde(rename = "forSeconds")]
    pub running_for: Seconds,
    #[serde(rename = "withoutProgressSeconds")]
    pub silent_for: Seconds,
}

/// A key that waits for another attempt.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetryEntry {
    pub key: String,
    pub failures: u32,
    #[serde(rename = "dueInSeconds")]
    pub due_in: Seconds,
}

/// A key that waits until a cache shows this controller's own writes.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnWriteEntry {
    pub key: String,
    /// The time until the key is synced at the latest.
    #[serde(rename = "atMostSeconds")]
    pub at_most: Seconds,
    /// The writes: the resource, the version that its cache must reach, and the one that it has reached.
    pub writes: Vec<String>,
}

/// A key that failed.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorEntry {
    /// When it failed last, by RFC 3339.
    pub time: String,
    pub key: String,
    pub error: String,
    /// The number of its failures for as long as it has been in the list.
    pub times: u64,
}

/// The cache of a kind.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CacheEntry {
    pub resource: String,
    pub synced: bool,
    pub objects: usize,
    /// The number of objects whose body can't be decoded.
    pub unreadable: usize,
    /// An estimate of the cache's memory.
    pub bytes: usize,
    /// The version that the cache has reached.
    pub version: String,
    /// What the cache's reflector does: `watching`, `listing` and the like.
    pub watch: String,
    #[serde(rename = "watchForSeconds")]
    pub watch_for: Seconds,
    /// The time since the last event or bookmark.
    #[serde(rename = "stalenessSeconds", skip_serializing_if = "Option::is_none")]
    pub staleness: Option<Seconds>,
    /// Why the cache counts as stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
    /// The number of complete lists after the first one.
    pub relists: u64,
    /// The number of lists and watches that failed.
    pub failures: u64,
    /// The number of changes that the cache has not taken in yet.
    pub queued: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(rename = "lastErrorSecondsAgo", skip_serializing_if = "Option::is_none")]
    pub last_error_ago: Option<Seconds>,
}

/// A duration: seconds in JSON, to the millisecond; a short text for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seconds(pub Duration);

impl From<Duration> for Seconds {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64((self.0.as_secs_f64() * 1000.0).round() / 1000.0)
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
        match seconds {
            0 => write!(f, "{} ms", self.0.as_millis()),
            1..10 => write!(f, "{:.1} s", self.0.as_secs_f64()),
            10..60 => write!(f, "{seconds} s"),
            60..3600 => write!(f, "{minutes} min {} s", seconds % 60),
            3600..86_400 => write!(f, "{hours} h {minutes} min"),
            _ => write!(f, "{days} d {hours} h"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_for_people_and_exact_for_programs() {
        for (millis, text, json) in [
            (0, "0 ms", "0.0"),
            (999, "999 ms", "0.999"),
            (1_500, "1.5 s", "1.5"),
            (59_999, "59 s", "59.999"),
            (61_000, "1 min 1 s", "61.0"),
            (7_260_000, "2 h 1 min", "7260.0"),
            (180_000_000, "2 d 2 h", "180000.0"),
        ] {
            let seconds = Seconds(Duration::from_millis(millis));
            assert_eq!(seconds.to_string(), text);
            assert_eq!(serde_json::to_string(&seconds).unwrap(), json);
        }
    }
}
