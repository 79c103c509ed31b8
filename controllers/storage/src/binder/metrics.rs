//! The binder's metrics, under upstream's names.

use std::sync::Arc;
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    Error, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry,
};

use super::claim;
use super::operations::Operation;
use super::plugins::metrics_name;
use super::state::State;
use super::volume;

/// What the binder counts. Clones share their counts.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    errors: IntCounterVec,
    deprecated_errors: IntCounterVec,
    durations: HistogramVec,
    retroactive: IntCounter,
    retroactive_errors: IntCounter,
}

const CONSTANT: &str = "a constant description must be valid";
const OPERATION: &[&str] = &["plugin_name", "operation_name"];

impl Metrics {
    pub(super) fn new() -> Self {
        let errors =
            |name: &str, help: &str| IntCounterVec::new(Opts::new(name, help), OPERATION).expect(CONSTANT);
        let counter =
            |name: &str, help: &str| IntCounter::new(name, format!("[ALPHA] {help}")).expect(CONSTANT);
        let durations = HistogramOpts::new(
            "volume_operation_total_seconds",
            "[ALPHA] Storage operation end to end duration in seconds",
        )
        .buckets(vec![0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0]);
        Self {
            errors: errors("volume_operation_errors_total", "[ALPHA] Total volume operation errors"),
            deprecated_errors: errors(
                "volume_operation_total_errors",
                "[ALPHA] (Deprecated since 1.36.0) Total volume operation errors",
            ),
            durations: HistogramVec::new(durations, OPERATION).expect(CONSTANT),
            retroactive: counter(
                "retroactive_storageclass_total",
                "Total number of retroactive StorageClass assignments to persistent volume claim",
            ),
            retroactive_errors: counter(
                "retroactive_storageclass_errors_total",
                "Total number of failed retroactive StorageClass assignments to persistent volume claim",
            ),
        }
    }

    /// Serves the metrics from `registry`, with the numbers of claims and volumes in `state`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub(super) fn register(&self, registry: &Registry, state: &Arc<State>) -> Result<(), Error> {
        registry.register(Box::new(self.errors.clone()))?;
        registry.register(Box::new(self.deprecated_errors.clone()))?;
        registry.register(Box::new(self.durations.clone()))?;
        registry.register(Box::new(self.retroactive.clone()))?;
        registry.register(Box::new(self.retroactive_errors.clone()))?;
        registry.register(Box::new(Counts { state: Arc::clone(state), families: Families::new() }))
    }

    /// An operation succeeded.
    pub(super) fn took(&self, operation: &Operation, time: Duration) {
        let labels = [operation.plugin.as_str(), operation.name];
        self.durations.with_label_values(&labels).observe(time.as_secs_f64());
    }

    /// An operation failed.
    pub(super) fn failed(&self, operation: &Operation) {
        let labels = [operation.plugin.as_str(), operation.name];
        self.errors.with_label_values(&labels).inc();
        self.deprecated_errors.with_label_values(&labels).inc();
    }

    /// A claim got the default class, or could not get it.
    pub(super) fn assigned_class(&self, succeeded: bool) {
        self.retroactive.inc();
        if !succeeded {
            self.retroactive_errors.inc();
        }
    }
}

/// Counts volumes and claims whenever the metrics are read.
struct Counts {
    state: Arc<State>,
    families: Families,
}

struct Families {
    total_volumes: IntGaugeVec,
    bound_volumes: IntGaugeVec,
    unbound_volumes: IntGaugeVec,
    bound_claims: IntGaugeVec,
    unbound_claims: IntGaugeVec,
}

impl Families {
    fn new() -> Self {
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            let opts = Opts::new(format!("pv_collector_{name}"), format!("[ALPHA] {help}"));
            IntGaugeVec::new(opts, labels).expect(CONSTANT)
        };
        let of_claims = &["namespace", "storage_class", "volume_attributes_class"];
        Self {
            total_volumes: gauge(
                "total_pv_count",
                "Gauge measuring total number of persistent volumes",
                &["plugin_name", "volume_mode"],
            ),
            bound_volumes: gauge(
                "bound_pv_count",
                "Gauge measuring number of persistent volume currently bound",
                &["storage_class"],
            ),
            unbound_volumes: gauge(
                "unbound_pv_count",
                "Gauge measuring number of persistent volume currently unbound",
                &["storage_class"],
            ),
            bound_claims: gauge(
                "bound_pvc_count",
                "Gauge measuring number of persistent volume claim currently bound",
                of_claims,
            ),
            unbound_claims: gauge(
                "unbound_pvc_count",
                "Gauge measuring number of persistent volume claim currently unbound",
                of_claims,
            ),
        }
    }

    fn all(&self) -> [&IntGaugeVec; 5] {
        let Self { total_volumes, bound_volumes, unbound_volumes, bound_claims, unbound_claims } = self;
        [total_volumes, bound_volumes, unbound_volumes, bound_claims, unbound_claims]
    }
}

impl Collector for Counts {
    fn desc(&self) -> Vec<&Desc> {
        self.families.all().into_iter().flat_map(|family| family.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // New families each time: two readers must not add up to twice the numbers.
        let families = Families::new();
        self.state.for_each_volume(|volume| {
            let (plugin, class) = (metrics_name(volume), &*volume.offer().class);
            families.total_volumes.with_label_values(&[plugin, volume.mode()]).inc();
            let is_bound = volume.phase() == volume::BOUND;
            let family = if is_bound { &families.bound_volumes } else { &families.unbound_volumes };
            family.with_label_values(&[class]).inc();
        });
        self.state.for_each_claim(|claim| {
            let is_bound = claim.status().phase == *claim::BOUND;
            let family = if is_bound { &families.bound_claims } else { &families.unbound_claims };
            let namespace = claim.meta().key.namespace.as_str();
            family.with_label_values(&[namespace, claim.class(), claim.attributes_class()]).inc();
        });
        families.all().into_iter().flat_map(|family| family.collect()).collect()
    }
}
