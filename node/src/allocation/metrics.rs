//! What is measured of resizes, under the kubelet's names.

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// The families. A clone counts into the same ones. They work whether or not they are registered.
#[derive(Debug, Clone)]
pub struct Metrics {
    requested: IntCounterVec,
    pending: IntGaugeVec,
    in_progress: IntGauge,
    accepted: IntCounterVec,
}

impl Metrics {
    /// New families, all empty.
    pub fn new() -> Self {
        let valid = "the family's options must be valid";
        let opts = |name: &str, help: &str| Opts::new(format!("kubelet_{name}"), help);
        let requested = opts(
            "container_requested_resizes_total",
            "Number of requested resizes, counted at the container level. Different resources on the same container are \
             counted separately. The 'requirement' label refers to 'memory' or 'limits'; the 'operation' label can be one \
             of 'add', 'remove', 'increase' or 'decrease'.",
        );
        let accepted = opts(
            "pod_deferred_accepted_resizes_total",
            "Cumulative number of resizes that were accepted after being deferred.",
        );
        let pending = opts("pod_pending_resizes", "Number of pending resizes for pods.");
        let in_progress = opts("pod_in_progress_resizes", "Number of in-progress resizes for pods.");
        Self {
            requested: IntCounterVec::new(requested, &["resource", "requirement", "operation"]).expect(valid),
            pending: IntGaugeVec::new(pending, &["reason"]).expect(valid),
            in_progress: IntGauge::with_opts(in_progress).expect(valid),
            accepted: IntCounterVec::new(accepted, &["retry_trigger"]).expect(valid),
        }
    }

    /// Makes them part of what a process tells.
    ///
    /// # Errors
    /// Another family has one of the names.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.requested.clone()))?;
        registry.register(Box::new(self.pending.clone()))?;
        registry.register(Box::new(self.in_progress.clone()))?;
        registry.register(Box::new(self.accepted.clone()))
    }

    /// A container's resources are to change: resource, requirement, operation.
    pub(super) fn requested(&self, labels: [&str; 3]) {
        self.requested.with_label_values(&labels).inc();
    }

    /// A resize that did not fit does now.
    pub(super) fn accepted(&self, trigger: &str) {
        self.accepted.with_label_values(&[trigger]).inc();
    }

    /// How many resizes wait, by reason, and how many are being done.
    pub(super) fn set(&self, pending: &[(&str, i64)], in_progress: i64) {
        self.pending.reset();
        for (reason, count) in pending {
            self.pending.with_label_values(&[*reason]).set(*count);
        }
        self.in_progress.set(in_progress);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
