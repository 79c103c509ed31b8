//! The metrics of the DaemonSet controller.

use prometheus::{IntCounterVec, Opts, Registry};
use steersman_api::GroupVersionResource;

/// The metrics of the DaemonSet controller.
#[derive(Clone)]
pub(super) struct Metrics {
    stale_syncs: IntCounterVec,
}

impl Metrics {
    /// Makes the metrics and registers them.
    ///
    /// # Errors
    /// The registry has metrics of these names.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let stale = Opts::new(
            "daemonset_controller_stale_sync_skips_total",
            "Total number of DaemonSet syncs skipped due to a stale watch cache.",
        );
        let stale_syncs = IntCounterVec::new(stale, &["group", "resource"])?;
        registry.register(Box::new(stale_syncs.clone()))?;
        Ok(Self { stale_syncs })
    }

    /// Counts a sync that is put off because the cache of this resource is behind.
    pub(super) fn stale(&self, resource: &GroupVersionResource) {
        self.stale_syncs.with_label_values(&[&*resource.group, &*resource.resource]).inc();
    }
}
