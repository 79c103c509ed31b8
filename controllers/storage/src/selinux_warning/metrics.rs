//! The controller's metric, under upstream's name.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, IntGaugeVec, Opts, Registry};

use super::volumes::Volumes;

/// Maximum number of conflicts that a scrape returns: twice the number of pairs of pods, and twice again if they disagree about
/// both properties. Upstream returns all.
const MOST_SHOWN: usize = 10_000;

/// Shows the conflicts at each scrape.
struct Conflicts {
    used: Arc<Mutex<Volumes>>,
    /// Describes the metric.
    described: IntGaugeVec,
}

/// Serves the metric from `registry`.
///
/// # Errors
/// The registry has a metric of that name already.
pub(super) fn register(registry: &Registry, used: Arc<Mutex<Volumes>>) -> Result<(), Error> {
    registry.register(Box::new(Conflicts { used, described: gauge() }))
}

fn gauge() -> IntGaugeVec {
    let opts = Opts::new(
        "selinux_warning_controller_selinux_volume_conflict",
        "[ALPHA] Conflict between two Pods using the same volume",
    );
    let labels = [
        "property",
        "pod1_namespace",
        "pod1_name",
        "pod1_value",
        "pod2_namespace",
        "pod2_name",
        "pod2_value",
    ];
    IntGaugeVec::new(opts, &labels).expect("a constant metric description must be valid")
}

impl Collector for Conflicts {
    fn desc(&self) -> Vec<&Desc> {
        self.described.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Scrapes may overlap, so each has its own gauge.
        let gauge = gauge();
        for conflict in self.used.lock().conflicts(MOST_SHOWN) {
            let (pod, other) = (&conflict.pod, &conflict.other);
            let labels = [
                conflict.property.as_str(),
                &pod.namespace,
                &pod.name,
                &conflict.value,
                &other.namespace,
                &other.name,
                &conflict.other_value,
            ];
            gauge.with_label_values(&labels).set(1);
        }
        gauge.collect()
    }
}
