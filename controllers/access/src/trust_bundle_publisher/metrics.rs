//! The controller's metrics, under upstream's names.

use std::time::Duration;

use prometheus::{Error, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, exponential_buckets};
use steersman_controller::controller::SyncError;

/// Counts syncs.
pub(super) struct Metrics {
    syncs: IntCounterVec,
    durations: HistogramVec,
}

impl Metrics {
    /// Makes the metrics and serves them from `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub(super) fn register(registry: &Registry) -> Result<Self, Error> {
        let syncs = IntCounterVec::new(
            Opts::new(
                "clustertrustbundle_publisher_sync_total",
                "[ALPHA] Number of syncs that occurred in cluster trust bundle publisher.",
            ),
            &["code"],
        )?;
        let durations = HistogramOpts::new(
            "clustertrustbundle_publisher_sync_duration_seconds",
            "[ALPHA] The time it took to sync a cluster trust bundle.",
        );
        let durations =
            HistogramVec::new(durations.buckets(exponential_buckets(0.001, 2.0, 15)?), &["code"])?;
        registry.register(Box::new(syncs.clone()))?;
        registry.register(Box::new(durations.clone()))?;
        Ok(Self { syncs, durations })
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
