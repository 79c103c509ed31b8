//! The controller's metrics.

use prometheus::{GaugeVec, IntCounterVec, Opts, Registry};
use steersman_api::{GroupVersionResource, ObjectKey, Time};

use super::observed::{Observed, Order};

/// The controller's metrics. The gauges have series only where the gate `MaxUnavailableStatefulSet` is on.
#[derive(Clone)]
pub(super) struct Metrics {
    max_unavailable: GaugeVec,
    unavailable: GaugeVec,
    stale_syncs: IntCounterVec,
}

const LABELS: &[&str] = &["statefulset_namespace", "statefulset_name", "pod_management_policy"];

impl Order {
    fn policy(self) -> &'static str {
        match self {
            Self::Ready => "OrderedReady",
            Self::Parallel => "Parallel",
        }
    }
}

impl Metrics {
    /// Makes the metrics, and registers them.
    ///
    /// # Errors
    /// The registry has metrics of these names.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name, help| GaugeVec::new(Opts::new(name, help), LABELS);
        let stale = Opts::new(
            "statefulset_controller_stale_sync_skips_total",
            "Total number of StatefulSet syncs put off because a cache was behind the controller's own writes",
        );
        let metrics = Self {
            max_unavailable: gauge(
                "statefulset_controller_statefulset_max_unavailable",
                "Maximum number of unavailable pods allowed during StatefulSet rolling updates",
            )?,
            unavailable: gauge(
                "statefulset_controller_statefulset_unavailable_replicas",
                "Current number of unavailable pods in StatefulSet",
            )?,
            stale_syncs: IntCounterVec::new(stale, &["group", "resource"])?,
        };
        registry.register(Box::new(metrics.max_unavailable.clone()))?;
        registry.register(Box::new(metrics.unavailable.clone()))?;
        registry.register(Box::new(metrics.stale_syncs.clone()))?;
        Ok(metrics)
    }

    /// Counts a sync that was put off, since the cache of a resource is behind.
    pub(super) fn stale_sync(&self, resource: &GroupVersionResource) {
        self.stale_syncs.with_label_values(&[&*resource.group, &*resource.resource]).inc();
    }

    /// Shows what a sync found.
    pub(super) fn synced(&self, observed: &Observed, now: Time) {
        let key = &observed.set.meta.key;
        let labels = [&*key.namespace, &*key.name, observed.set.order.policy()];
        self.max_unavailable.with_label_values(&labels).set(observed.set.max_unavailable().into());
        self.unavailable.with_label_values(&labels).set(observed.unavailable(now).into());
    }

    /// Removes the series of an earlier term, whose sets may have gone since.
    pub(super) fn term_begins(&self) {
        self.max_unavailable.reset();
        self.unavailable.reset();
    }

    /// Removes the series of a set that is gone.
    pub(super) fn forget(&self, set: &ObjectKey) {
        for order in [Order::Ready, Order::Parallel] {
            let labels = [&*set.namespace, &*set.name, order.policy()];
            // Most sets have no series.
            let _ = self.max_unavailable.remove_label_values(&labels);
            let _ = self.unavailable.remove_label_values(&labels);
        }
    }
}
