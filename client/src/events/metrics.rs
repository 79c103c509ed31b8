//! Counts the events that were not written.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{IntCounterVec, Opts, Registry};
use tokio::time::{Duration, Instant};

/// Shortest time between two log lines about dropped events.
const COMPLAINT_PERIOD: Duration = Duration::from_secs(60);

/// The family `steersman_events_dropped_total{component,reason}`; client-go only logs what it drops.
///
/// A clone counts into the same family. It counts whether or not it is [registered](Metrics::register).
#[derive(Debug, Clone)]
pub struct Metrics {
    dropped: IntCounterVec,
    complaint: Arc<Mutex<Complaint>>,
}

#[derive(Debug, Default)]
struct Complaint {
    /// When dropped events were last logged.
    last: Option<Instant>,
    /// Number of events dropped since then.
    unlogged: u64,
}

/// Why an event was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dropped {
    /// The queue was full.
    QueueFull,
    /// The writer was stopping or had stopped.
    Stopped,
    /// Too many events were about one object.
    Spam,
    /// The API server refused it.
    Rejected,
    /// The API server was too busy, or failed.
    ServerFailed,
    /// The API server could not be reached for all tries.
    GaveUp,
}

impl Dropped {
    fn label(self) -> &'static str {
        match self {
            Dropped::QueueFull => "queue_full",
            Dropped::Stopped => "stopped",
            Dropped::Spam => "spam",
            Dropped::Rejected => "rejected",
            Dropped::ServerFailed => "server_failed",
            Dropped::GaveUp => "gave_up",
        }
    }
}

impl Metrics {
    /// Creates the family, empty.
    pub fn new() -> Self {
        let options = Opts::new(
            "steersman_events_dropped_total",
            "Number of events that were not written, partitioned by reporting component and reason.",
        );
        let dropped = IntCounterVec::new(options, &["component", "reason"])
            .expect("a constant metric description must be valid");
        Self { dropped, complaint: Arc::default() }
    }

    /// Adds the family to `registry`.
    ///
    /// # Errors
    /// If the registry already has a family of this name.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.dropped.clone()))
    }

    pub(super) fn dropped(&self, component: &str, reason: Dropped) {
        self.dropped.with_label_values(&[component, reason.label()]).inc();
        // The spam filter is not a fault, and a rejected event has its own log line.
        if matches!(reason, Dropped::Spam | Dropped::Rejected) {
            return;
        }
        let mut complaint = self.complaint.lock();
        complaint.unlogged += 1;
        if complaint.last.is_none_or(|last| last.elapsed() >= COMPLAINT_PERIOD) {
            let dropped = std::mem::take(&mut complaint.unlogged);
            complaint.last = Some(Instant::now());
            drop(complaint);
            tracing::warn!(dropped, component, reason = reason.label(), "Events were dropped");
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
impl Metrics {
    pub(super) fn read(&self, component: &str, reason: Dropped) -> u64 {
        self.dropped.with_label_values(&[component, reason.label()]).get()
    }
}
