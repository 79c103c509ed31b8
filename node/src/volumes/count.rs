//! How many volumes there are, and how many there should be.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use super::manager::VolumeManager;
use super::metrics::{ACTUAL, DESIRED};

/// Counts the volumes that are wanted, and those that are there, whenever somebody asks.
pub(super) struct VolumeCount(pub(super) VolumeManager);

impl Collector for VolumeCount {
    fn desc(&self) -> Vec<&Desc> {
        self.0.shared.parts.metrics.volumes.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let count = &self.0.shared.parts.metrics.volumes;
        count.reset();
        for pod in self.0.shared.pods.lock().values() {
            for volume in pod.volumes.lock().values() {
                let plugin = volume.plugin.unwrap_or("N/A");
                count.with_label_values(&[plugin, DESIRED]).inc();
                if volume.mounted.is_some() {
                    count.with_label_values(&[plugin, ACTUAL]).inc();
                }
            }
        }
        count.collect()
    }
}
