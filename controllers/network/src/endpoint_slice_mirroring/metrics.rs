//! The metrics of the controller, under upstream's names.

use std::sync::Arc;

use prometheus::{Error, Histogram, HistogramOpts, IntCounterVec, Opts, Registry, exponential_buckets};

use crate::slices::Gauges;

const PREFIX: &str = "endpoint_slice_mirroring_controller";

/// The families `endpoint_slice_mirroring_controller_*`.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    pub(super) added: Histogram,
    pub(super) updated: Histogram,
    pub(super) removed: Histogram,
    pub(super) skipped: Histogram,
    pub(super) duration: Histogram,
    /// By operation: `create`, `update` or `delete`.
    pub(super) changes: IntCounterVec,
    pub(super) gauges: Arc<Gauges>,
}

impl Metrics {
    pub(super) fn new() -> Self {
        const VALID: &str = "a constant description must be valid";
        let histogram = |name: &str, help: &str, first: f64| {
            let buckets = exponential_buckets(first, 2.0, 15).expect(VALID);
            let opts = HistogramOpts::new(format!("{PREFIX}_{name}"), help);
            Histogram::with_opts(opts.buckets(buckets)).expect(VALID)
        };
        let changes = Opts::new(format!("{PREFIX}_changes"), "Number of EndpointSlice changes");
        Self {
            added: histogram(
                "endpoints_added_per_sync",
                "Number of endpoints added on each Endpoints sync",
                2.0,
            ),
            updated: histogram(
                "endpoints_updated_per_sync",
                "Number of endpoints updated on each Endpoints sync",
                2.0,
            ),
            removed: histogram(
                "endpoints_removed_per_sync",
                "Number of endpoints removed on each Endpoints sync",
                2.0,
            ),
            skipped: histogram(
                "addresses_skipped_per_sync",
                "Number of addresses skipped on each Endpoints sync due to being invalid or exceeding \
                 MaxEndpointsPerSubset",
                2.0,
            ),
            duration: histogram("endpoints_sync_duration", "Duration of syncEndpoints() in seconds", 0.001),
            changes: IntCounterVec::new(changes, &["operation"]).expect(VALID),
            gauges: Arc::new(Gauges::new(PREFIX)),
        }
    }

    pub(super) fn register(&self, registry: &Registry) -> Result<(), Error> {
        for histogram in [&self.added, &self.updated, &self.removed, &self.skipped, &self.duration] {
            registry.register(Box::new(histogram.clone()))?;
        }
        registry.register(Box::new(self.changes.clone()))?;
        self.gauges.register(registry)
    }
}
