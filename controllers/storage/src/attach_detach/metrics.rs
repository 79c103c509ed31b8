//! What the controller reports of volumes and detachments, under upstream's names.

use std::collections::BTreeMap;
use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

use super::plan::Reason;
use super::volumes::Volumes;

/// Counts the volumes that are detached by force.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    forced: IntCounterVec,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let opts = Opts::new(
            "attach_detach_controller_attachdetach_controller_forced_detaches",
            "[ALPHA] Number of times the A/D Controller performed a forced detach",
        );
        let forced = IntCounterVec::new(opts, &["reason"]);
        Self { forced: forced.expect("a constant metric description must be valid") }
    }

    /// Registers the counter, and the gauges that count `volumes`.
    pub(super) fn register(
        &self,
        registry: &Registry,
        volumes: Arc<Volumes>,
    ) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.forced.clone()))?;
        registry.register(Box::new(Counts { volumes }))
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
        let index = self.volumes.index.lock();
        count(index.wanted(), "desired_state_of_world");
        count(index.attached(), "actual_state_of_world");
        drop(index);
        in_use.collect().into_iter().chain(total.collect()).collect()
    }
}
