//! The controller's metrics.

use std::time::Duration;

use prometheus::{Error, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, exponential_buckets};
use steersman_controller::controller::SyncError;

const HELP: &str = "[ALPHA] Number of namespace syncs happened in root ca cert publisher.";

/// The metrics of the controller.
pub(super) struct Metrics {
    syncs: IntCounterVec,
    durations: HistogramVec,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let buckets = exponential_buckets(0.001, 2.0, 15).expect("constant buckets must be valid");
        // Upstream has one text for both.
        let durations = HistogramOpts::new("root_ca_cert_publisher_sync_duration_seconds", HELP);
        Self {
            syncs: IntCounterVec::new(Opts::new("root_ca_cert_publisher_sync_total", HELP), &["code"])
                .expect("a constant description must be valid"),
            durations: HistogramVec::new(durations.buckets(buckets), &["code"])
                .expect("a constant description must be valid"),
        }
    }

    /// Serves the metrics from `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub(super) fn register(&self, registry: &Registry) -> Result<(), Error> {
        registry.register(Box::new(self.syncs.clone()))?;
        registry.register(Box::new(self.durations.clone()))
    }

    /// Counts a sync under the HTTP status of the call that ended it: 200 if it succeeded, 500 without a status.
    pub(super) fn synced(&self, took: Duration, result: Result<(), &SyncError>) {
        let code = match result {
            Ok(()) => 200,
            Err(error) => error.status().map(|status| status.code).filter(|code| *code != 0).unwrap_or(500),
        };
        let code = code.to_string();
        self.syncs.with_label_values(&[&code]).inc();
        self.durations.with_label_values(&[&code]).observe(took.as_secs_f64());
    }
}
