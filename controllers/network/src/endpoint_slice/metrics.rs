//! The metrics of the controller, under upstream's names.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{
    Error, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry,
    exponential_buckets,
};
use steersman_api::{ArcStr, ObjectKey};

use crate::slices::Gauges;

const PREFIX: &str = "endpoint_slice_controller";

/// The families `endpoint_slice_controller_*`.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    pub(super) added: Histogram,
    pub(super) removed: Histogram,
    /// By operation: `create`, `update` or `delete`.
    pub(super) changes: IntCounterVec,
    /// By topology (`Auto` or `Disabled`) and traffic distribution.
    pub(super) changed_per_sync: HistogramVec,
    /// By result: `success`, `error` or `stale`.
    pub(super) syncs: IntCounterVec,
    pub(super) gauges: Arc<Gauges>,
    by_distribution: IntGaugeVec,
    distributions: Arc<Mutex<HashMap<ObjectKey, ArcStr>>>,
}

impl Metrics {
    pub(super) fn new() -> Self {
        const VALID: &str = "a constant description must be valid";
        let opts = |name: &str, help: &str| HistogramOpts::new(format!("{PREFIX}_{name}"), help);
        let buckets = exponential_buckets(2.0, 2.0, 15).expect(VALID);
        let per_sync = |name: &str, help: &str| {
            Histogram::with_opts(opts(name, help).buckets(buckets.clone())).expect(VALID)
        };
        let counter = |name: &str, help: &str, label: &str| {
            IntCounterVec::new(Opts::new(format!("{PREFIX}_{name}"), help), &[label]).expect(VALID)
        };
        let by_distribution = Opts::new(
            format!("{PREFIX}_services_count_by_traffic_distribution"),
            "Number of Services using some specific trafficDistribution",
        );
        Self {
            added: per_sync("endpoints_added_per_sync", "Number of endpoints added on each Service sync"),
            removed: per_sync(
                "endpoints_removed_per_sync",
                "Number of endpoints removed on each Service sync",
            ),
            changes: counter("changes", "Number of EndpointSlice changes", "operation"),
            changed_per_sync: HistogramVec::new(
                opts(
                    "endpointslices_changed_per_sync",
                    "Number of EndpointSlices changed on each Service sync",
                ),
                &["topology", "traffic_distribution"],
            )
            .expect(VALID),
            syncs: counter("syncs", "Number of EndpointSlice syncs", "result"),
            gauges: Arc::new(Gauges::new(PREFIX)),
            by_distribution: IntGaugeVec::new(by_distribution, &["traffic_distribution"]).expect(VALID),
            distributions: Arc::default(),
        }
    }

    pub(super) fn register(&self, registry: &Registry) -> Result<(), Error> {
        registry.register(Box::new(self.added.clone()))?;
        registry.register(Box::new(self.removed.clone()))?;
        registry.register(Box::new(self.changes.clone()))?;
        registry.register(Box::new(self.changed_per_sync.clone()))?;
        registry.register(Box::new(self.syncs.clone()))?;
        registry.register(Box::new(self.by_distribution.clone()))?;
        self.gauges.register(registry)
    }

    /// Counts a service under its traffic distribution; `None` if it has none.
    pub(super) fn distribution(&self, service: &ObjectKey, value: Option<&str>) {
        let mut services = self.distributions.lock();
        let before = services.get(service);
        if before.map(ArcStr::as_str) == value {
            return;
        }
        if let Some(before) = before {
            self.by_distribution.with_label_values(&[before]).dec();
        }
        match value {
            Some(value) => {
                self.by_distribution.with_label_values(&[value]).inc();
                services.insert(service.clone(), value.into());
            }
            None => _ = services.remove(service),
        }
    }

    /// Forgets a service that is gone.
    pub(super) fn forget(&self, service: &ObjectKey) {
        self.gauges.remove(service);
        self.distribution(service, None);
    }
}
