//! The controller's metrics.

use prometheus::{Error, Histogram, HistogramOpts, Registry, exponential_buckets};

/// The metrics of the CronJob controller. Cheap to clone.
#[derive(Clone)]
pub(super) struct Metrics {
    /// The time from a job's scheduled run to its creation, in seconds.
    pub creation_skew: Histogram,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let buckets = exponential_buckets(1.0, 2.0, 10).expect("constant buckets must be valid");
        let skew = HistogramOpts::new(
            "cronjob_controller_job_creation_skew_duration_seconds",
            "Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
        );
        Self {
            creation_skew: Histogram::with_opts(skew.buckets(buckets))
                .expect("a constant description must be valid"),
        }
    }

    /// Serves the metrics from `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub(super) fn register(&self, registry: &Registry) -> Result<(), Error> {
        registry.register(Box::new(self.creation_skew.clone()))
    }
}
