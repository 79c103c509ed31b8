//! The controller's own metrics.

use std::time::Duration;

use prometheus::{
    Error, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    exponential_buckets,
};
use steersman_api::ObjectKey;

use super::decision::Computation;

/// The metrics of the controller.
pub(super) struct Metrics {
    reconciliations: IntCounterVec,
    reconciliation_duration: HistogramVec,
    computations: IntCounterVec,
    computation_duration: HistogramVec,
    /// The number of autoscalers.
    pub autoscalers: IntGauge,
    desired_replicas: IntGaugeVec,
}

impl Metrics {
    pub(super) fn new() -> Self {
        const ACTION: &str = "The label 'action' should be either 'scale_down', 'scale_up', or 'none'.";
        const ERROR: &str = "the label 'error' should be either 'spec', 'internal', or 'none'.";
        const FIRST: &str = "Note that if both spec and internal errors happen during a reconciliation, the first one to occur is reported in `error` label.";
        const TYPE: &str = "The label 'metric_type' corresponds to HPA.spec.metrics[*].type";
        let name = |name: &str| format!("horizontal_pod_autoscaler_controller_{name}");
        let counter = |text: &str, help: String, labels: &[&str]| {
            IntCounterVec::new(Opts::new(name(text), help), labels)
                .expect("a constant description must be valid")
        };
        let histogram = |text: &str, help: String, labels: &[&str]| {
            let buckets = exponential_buckets(0.001, 2.0, 15).expect("constant buckets must be valid");
            HistogramVec::new(HistogramOpts::new(name(text), help).buckets(buckets), labels)
                .expect("a constant description must be valid")
        };
        let gauge =
            Opts::new(name("num_horizontal_pod_autoscalers"), "Current number of controlled HPA objects.");
        let desired = Opts::new(name("desired_replicas"), "Current desired replica count for HPA objects.");
        Self {
            reconciliations: counter(
                "reconciliations_total",
                format!("Number of reconciliations of HPA controller. {ACTION} Also, {ERROR} {FIRST}"),
                &["action", "error"],
            ),
            reconciliation_duration: histogram(
                "reconciliation_duration_seconds",
                format!(
                    "The time(seconds) that the HPA controller takes to reconcile once. {ACTION} Also, {ERROR} {FIRST}"
                ),
                &["action", "error"],
            ),
            computations: counter(
                "metric_computation_total",
                format!("Number of metric computations. {ACTION} Also, {ERROR} {TYPE}"),
                &["action", "error", "metric_type"],
            ),
            computation_duration: histogram(
                "metric_computation_duration_seconds",
                format!(
                    "The time(seconds) that the HPA controller takes to calculate one metric. {ACTION} The l{} {TYPE}",
                    &ERROR[5..]
                ),
                &["action", "error", "metric_type"],
            ),
            autoscalers: IntGauge::with_opts(gauge).expect("a constant description must be valid"),
            desired_replicas: IntGaugeVec::new(desired, &["namespace", "hpa_name"])
                .expect("a constant description must be valid"),
        }
    }

    /// Serves the metrics from `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub(super) fn register(&self, registry: &Registry) -> Result<(), Error> {
        registry.register(Box::new(self.reconciliations.clone()))?;
        registry.register(Box::new(self.reconciliation_duration.clone()))?;
        registry.register(Box::new(self.computations.clone()))?;
        registry.register(Box::new(self.computation_duration.clone()))?;
        registry.register(Box::new(self.autoscalers.clone()))?;
        registry.register(Box::new(self.desired_replicas.clone()))
    }

    /// Counts a sync.
    pub(super) fn reconciled(&self, action: &str, error: &str, took: Duration) {
        self.reconciliations.with_label_values(&[action, error]).inc();
        self.reconciliation_duration.with_label_values(&[action, error]).observe(took.as_secs_f64());
    }

    /// Counts the computation of a metric.
    pub(super) fn computed(&self, computation: &Computation) {
        let labels = [computation.action, computation.error, &*computation.kind];
        self.computations.with_label_values(&labels).inc();
        self.computation_duration.with_label_values(&labels).observe(computation.took.as_secs_f64());
    }

    /// Shows what number of replicas an autoscaler has come to.
    pub(super) fn desires(&self, key: &ObjectKey, replicas: i32) {
        self.desired_replicas.with_label_values(&[&*key.namespace, &*key.name]).set(replicas.into());
    }

    /// Drops what is shown of an autoscaler that is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        // There is nothing to drop if the autoscaler has never come to a number.
        drop(self.desired_replicas.remove_label_values(&[&*key.namespace, &*key.name]));
    }
}
