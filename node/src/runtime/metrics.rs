//! The metrics of calls to the runtime, under the kubelet's names, label and buckets.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, exponential_buckets};

use super::Operation;

/// The families `kubelet_runtime_operations_*`. A clone counts into the same ones, registered or not.
#[derive(Debug, Clone)]
pub struct Metrics {
    operations: IntCounterVec,
    errors: IntCounterVec,
    duration: HistogramVec,
}

impl Metrics {
    /// New families, all empty.
    pub fn new() -> Self {
        let labels = ["operation_type"];
        let counter = |name: &str, help: &str| {
            IntCounterVec::new(Opts::new(name, help), &labels).expect("names and labels must be well-formed")
        };
        // 5 ms to 12.5 min; upstream: pkg/kubelet/metrics.
        let buckets = exponential_buckets(0.005, 2.5, 14).expect("the buckets must be well-formed");
        let duration = HistogramOpts::new(
            "kubelet_runtime_operations_duration_seconds",
            "Duration in seconds of runtime operations. Broken down by operation type.",
        );
        Self {
            operations: counter(
                "kubelet_runtime_operations_total",
                "Cumulative number of runtime operations by operation type.",
            ),
            errors: counter(
                "kubelet_runtime_operations_errors_total",
                "Cumulative number of runtime operation errors by operation type.",
            ),
            duration: HistogramVec::new(duration.buckets(buckets), &labels)
                .expect("names and labels must be well-formed"),
        }
    }

    /// Shows the families in `registry`.
    ///
    /// # Errors
    /// When the registry has a family of one of these names already; those before it stay registered.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.operations.clone()))?;
        registry.register(Box::new(self.errors.clone()))?;
        registry.register(Box::new(self.duration.clone()))
    }

    /// Calls of `operation` that ended, in whatever way.
    pub fn operations(&self, operation: Operation) -> u64 {
        self.operations.with_label_values(&[operation.as_str()]).get()
    }

    /// Calls of `operation` that failed, were given up or ran out of time.
    pub fn errors(&self, operation: Operation) -> u64 {
        self.errors.with_label_values(&[operation.as_str()]).get()
    }

    /// A call ended after `took`.
    pub(super) fn ended(&self, operation: Operation, took: Duration) {
        self.operations.with_label_values(&[operation.as_str()]).inc();
        self.duration.with_label_values(&[operation.as_str()]).observe(took.as_secs_f64());
    }

    /// It failed.
    pub(super) fn failed(&self, operation: Operation) {
        self.errors.with_label_values(&[operation.as_str()]).inc();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
