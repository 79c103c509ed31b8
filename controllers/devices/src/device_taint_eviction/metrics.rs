//! The controller's metrics, under upstream's names.

use prometheus::{Error, Histogram, HistogramOpts, IntCounter, Registry};

/// Counts evicted pods.
pub(super) struct Metrics {
    deletions: IntCounter,
    delay: Histogram,
}

impl Metrics {
    /// Makes the metrics and serves them from `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub(super) fn register(registry: &Registry) -> Result<Self, Error> {
        let deletions = IntCounter::new(
            "device_taint_eviction_controller_pod_deletions_total",
            "[ALPHA] Total number of Pods deleted by DeviceTaintEvictionController since its start.",
        )?;
        let buckets = vec![0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0];
        let delay = Histogram::with_opts(
            HistogramOpts::new(
                "device_taint_eviction_controller_pod_deletion_duration_seconds",
                "[ALPHA] Latency, in seconds, between the time when a device taint effect has been activated and a Pod's \
                 deletion via DeviceTaintEvictionController.",
            )
            .buckets(buckets),
        )?;
        registry.register(Box::new(deletions.clone()))?;
        registry.register(Box::new(delay.clone()))?;
        Ok(Self { deletions, delay })
    }

    /// Counts a pod that was deleted this many seconds after its eviction was due.
    pub(super) fn deleted(&self, seconds: f64) {
        self.deletions.inc();
        self.delay.observe(seconds);
    }
}
