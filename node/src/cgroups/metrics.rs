//! How long work on control groups takes.

use prometheus::{HistogramOpts, HistogramVec, Registry};

/// The family `kubelet_cgroup_manager_duration_seconds`. A clone counts into the same one, registered or not.
#[derive(Debug, Clone)]
pub struct Metrics {
    duration: HistogramVec,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let opts = HistogramOpts::new(
            "kubelet_cgroup_manager_duration_seconds",
            "Duration in seconds for cgroup manager operations. Broken down by method.",
        );
        let duration =
            HistogramVec::new(opts, &["operation_type"]).expect("names and labels must be well-formed");
        Self { duration }
    }

    /// Shows the family in `registry`.
    ///
    /// # Errors
    /// When the registry has a family of this name already.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.duration.clone()))
    }

    pub(super) fn create<T>(&self, work: impl FnOnce() -> T) -> T {
        self.duration.with_label_values(&["create"]).observe_closure_duration(work)
    }

    pub(super) fn update<T>(&self, work: impl FnOnce() -> T) -> T {
        self.duration.with_label_values(&["update"]).observe_closure_duration(work)
    }

    pub(super) fn destroy<T>(&self, work: impl FnOnce() -> T) -> T {
        self.duration.with_label_values(&["destroy"]).observe_closure_duration(work)
    }
}
