//! The controller's metrics.

use prometheus::{Error, Histogram, HistogramOpts, Registry, exponential_buckets};

/// The metrics of the controller.
pub(super) struct Metrics {
    /// The time from a job's expiry to its deletion, in seconds.
    pub deletion: Histogram,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let buckets = exponential_buckets(0.1, 2.0, 14).expect("constant buckets must be valid");
        let deletion = HistogramOpts::new(
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "The time it took to delete the job since it became eligible for deletion",
        );
        Self {
            deletion: Histogram::with_opts(deletion.buckets(buckets))
                .expect("a constant description must be valid"),
        }
    }

    /// Serves the metrics from `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub(super) fn register(&self, registry: &Registry) -> Result<(), Error> {
        registry.register(Box::new(self.deletion.clone()))
    }
}
