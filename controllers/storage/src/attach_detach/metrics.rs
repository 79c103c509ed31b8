//! What the controller reports of volumes and detachments, under upstream's names.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};

use super::plan::Reason;
use super::volumes::Volumes;

/// Counts the volumes that are detached by force, and measures how long attaching and detaching takes.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    forced: IntCounterVec,
    operations: HistogramVec,
}

/// An operation on a volume. The metric's label `operation_name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Attach,
    Detach,
}

/// How an operation ended. The metric's label `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Success,
    Failure,
}

/// A volume in the labels of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    /// The name of the volume's plugin.
    pub plugin: String,
    /// Whether a CSI driver serves a volume of another type.
    pub migrated: bool,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let opts = Opts::new(
            "attach_detach_controller_attachdetach_controller_forced_detaches",
            "[ALPHA] Number of times the A/D Controller performed a forced detach",
        );
        let forced = IntCounterVec::new(opts, &["reason"]);
        let opts =
            HistogramOpts::new("storage_operation_duration_seconds", "[ALPHA] Storage operation duration")
                .buckets(vec![0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0]);
        let labels = &["volume_plugin", "operation_name", "status", "migrated"];
        Self {
            forced: forced.expect("a constant metric description must be valid"),
            operations: HistogramVec::new(opts, labels).expect("a constant metric description must be valid"),
        }
    }

    /// Registers the metrics, and the gauges that count `volumes`.
    pub(super) fn register(
        &self,
        registry: &Registry,
        volumes: Arc<Volumes>,
    ) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.forced.clone()))?;
        registry.register(Box::new(self.operations.clone()))?;
        registry.register(Box::new(Counts { volumes }))
    }

    /// An operation on a volume has ended.
    pub(super) fn ended(&self, subject: &Subject, operation: Operation, ending: Ending, took: Duration) {
        let operation = match operation {
            Operation::Attach => "volume_attach",
            Operation::Detach => "volume_detach",
        };
        let ending = match ending {
            Ending::Success => "success",
            Ending::Failure => "fail-unknown",
        };
        let migrated = if subject.migrated { "true" } else { "false" };
        let labels = [&*subject.plugin, operation, ending, migrated];
        self.operations.with_label_values(&labels).observe(took.as_secs_f64());
    }

    pub(super) fn forced(&self, reason: Reason) {
        self.forced.with_label_values(&[reason.as_str()]).inc();
    }
}

/// Counts volumes whenever the metrics are read.
struct Counts {
    volumes: Arc<Volumes>,
}

impl Counts {
    fn in_use() -> IntGaugeVec {
        gauge(
            "storage_count_attachable_volumes_in_use",
            "[ALPHA] Measure number of volumes in use",
            &["node", "volume_plugin"],
        )
    }

    fn total() -> IntGaugeVec {
        gauge(
            "attachdetach_controller_total_volumes",
            "[ALPHA] Number of volumes in A/D Controller",
            &["plugin_name", "state"],
        )
    }
}

fn gauge(name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
    IntGaugeVec::new(Opts::new(name, help), labels).expect("a constant metric description must be valid")
}

impl Collector for Counts {
    fn desc(&self) -> Vec<&Desc> {
        // The registry tells collectors apart by these. They must live as long as the collector.
        static DESCS: std::sync::LazyLock<Vec<Desc>> = std::sync::LazyLock::new(|| {
            let families = [Counts::in_use(), Counts::total()];
            families.iter().flat_map(|family| family.desc().into_iter().cloned()).collect()
        });
        DESCS.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (in_use, total) = (Self::in_use(), Self::total());
        for ((node, plugin), count) in self.volumes.in_use() {
            in_use.with_label_values(&[&*node, &*plugin]).set(count);
        }
        let count = |counts: BTreeMap<String, i64>, state: &str| {
            for (plugin, count) in counts {
                total.with_label_values(&[&*plugin, state]).set(count);
            }
        };
        count(self.volumes.wanted(), "desired_state_of_world");
        count(self.volumes.attached(), "actual_state_of_world");
        in_use.collect().into_iter().chain(total.collect()).collect()
    }
}
