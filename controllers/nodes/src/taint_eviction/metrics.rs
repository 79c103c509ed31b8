//! Counts the pods that the controller deletes, under upstream's names.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, Registry};

/// The families `taint_eviction_controller_*`.
#[derive(Clone, Debug)]
pub struct Metrics {
    deletions: IntCounter,
    latency: Histogram,
}

impl Metrics {
    /// Makes the families, without registering them.
    pub fn new() -> Self {
        let deletions = IntCounter::new(
            "taint_eviction_controller_pod_deletions_total",
            "[ALPHA] Total number of Pods deleted by TaintEvictionController since its start.",
        );
        let latency = HistogramOpts::new(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "[ALPHA] Latency, in seconds, between the time when a taint effect has been activated for the Pod and its \
             deletion via TaintEvictionController.",
        );
        let buckets = vec![0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0];
        let valid = "a constant metric description must be valid";
        Self {
            deletions: deletions.expect(valid),
            latency: Histogram::with_opts(latency.buckets(buckets)).expect(valid),
        }
    }

    /// Registers the families with `registry`.
    ///
    /// # Errors
    /// If `registry` already has a family of one of these names.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.deletions.clone()))?;
        registry.register(Box::new(self.latency.clone()))
    }

    /// Counts a deletion that came so long after it was due. Upstream multiplies the seconds by 10^18.
    pub(super) fn deleted(&self, after: Duration) {
        self.deletions.inc();
        self.latency.observe(after.as_secs_f64());
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
