//! What is measured of volumes, under the kubelet's names.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec, IntGauge, IntGaugeVec, Opts, Registry};

/// In seconds: most volumes take no time, and some are waited for for minutes.
const SECONDS: [f64; 13] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];

/// A volume is wanted.
pub(super) const DESIRED: &str = "desired_state_of_world";
/// A volume is there.
pub(super) const ACTUAL: &str = "actual_state_of_world";

/// The families; clones are the same series.
#[derive(Debug, Clone)]
pub struct Metrics {
    operations: HistogramVec,
    /// By plugin and state.
    pub(super) volumes: IntGaugeVec,
    orphans: IntGauge,
    orphans_failed: IntGauge,
}

/// What is done to a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Mount,
    Unmount,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Families that nobody reads yet.
    pub fn new() -> Self {
        let gauge =
            |name: &str, help: &str| IntGauge::new(name, help).expect("the gauge's options must be valid");
        let operations =
            HistogramOpts::new("storage_operation_duration_seconds", "Storage operation duration");
        let volumes = Opts::new("volume_manager_total_volumes", "Number of volumes in Volume Manager");
        Self {
            operations: HistogramVec::new(
                operations.buckets(SECONDS.to_vec()),
                &["volume_plugin", "operation_name", "status", "migrated"],
            )
            .expect("the histogram's options must be valid"),
            volumes: IntGaugeVec::new(volumes, &["plugin_name", "state"])
                .expect("the gauge's options must be valid"),
            orphans: gauge(
                "kubelet_orphan_pod_cleaned_volumes",
                "The total number of orphaned Pods whose volumes were cleaned in the last periodic sweep.",
            ),
            orphans_failed: gauge(
                "kubelet_orphan_pod_cleaned_volumes_errors",
                "The number of orphaned Pods whose volumes failed to be cleaned in the last periodic sweep.",
            ),
        }
    }

    /// Something was done to a volume of a plugin, well or not.
    pub(super) fn done(&self, operation: Operation, plugin: &str, well: bool, took: Duration) {
        let name = match operation {
            Operation::Mount => "volume_mount",
            Operation::Unmount => "volume_unmount",
        };
        let status = if well { "success" } else { "fail-unknown" };
        self.operations.with_label_values(&[plugin, name, status, "false"]).observe(took.as_secs_f64());
    }

    /// Orphaned pods' volumes were swept: so many were found, and so many of them failed.
    pub(super) fn swept(&self, found: usize, failed: usize) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.orphans.set(number(found));
        self.orphans_failed.set(number(failed));
    }

    pub(super) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        let all: [Box<dyn Collector>; 3] = [
            Box::new(self.operations.clone()),
            Box::new(self.orphans.clone()),
            Box::new(self.orphans_failed.clone()),
        ];
        all.into_iter().try_for_each(|family| registry.register(family))
    }
}
