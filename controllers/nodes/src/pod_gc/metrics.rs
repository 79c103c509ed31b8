//! Counts the pods that the collector force-deletes, under upstream's names.

use prometheus::{IntCounterVec, Opts, Registry};

use super::collection::Reason;

/// The families `pod_gc_collector_force_delete_*`, by namespace and reason.
#[derive(Clone, Debug)]
pub struct Metrics {
    deletions: IntCounterVec,
    errors: IntCounterVec,
}

impl Metrics {
    /// Makes the families, without registering them.
    pub fn new() -> Self {
        let family = |name: &str, help: &str| {
            IntCounterVec::new(Opts::new(name, help), &["namespace", "reason"])
                .expect("a constant metric description must be valid")
        };
        Self {
            deletions: family(
                "pod_gc_collector_force_delete_pods_total",
                "[ALPHA] Number of pods that are being forcefully deleted since the Pod GC Controller started.",
            ),
            errors: family(
                "pod_gc_collector_force_delete_pod_errors_total",
                "[ALPHA] Number of errors encountered when forcefully deleting the pods since the Pod GC Controller \
                 started.",
            ),
        }
    }

    /// Registers the families with `registry`.
    ///
    /// # Errors
    /// If `registry` already has a family of one of these names.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.deletions.clone()))?;
        registry.register(Box::new(self.errors.clone()))
    }

    /// Counts an attempt to delete a pod. As in upstream, one that failed counts both as a deletion and as an error.
    pub(super) fn deleted(&self, namespace: &str, reason: Reason, succeeded: bool) {
        let labels = [namespace, reason.as_str()];
        self.deletions.with_label_values(&labels).inc();
        if !succeeded {
            self.errors.with_label_values(&labels).inc();
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
