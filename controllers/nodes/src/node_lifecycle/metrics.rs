//! The health of zones and the taints that drive pods from nodes, under upstream's names.

use std::time::Duration;

use prometheus::{GaugeVec, Histogram, HistogramOpts, IntCounterVec, Opts, Registry, exponential_buckets};

/// The families `node_collector_*`.
#[derive(Clone, Debug)]
pub struct Metrics {
    zone_health: GaugeVec,
    zone_size: GaugeVec,
    unhealthy: GaugeVec,
    evictions: IntCounterVec,
    node: Histogram,
    all_nodes: Histogram,
}

impl Metrics {
    /// Makes the families, without registering them.
    pub fn new() -> Self {
        let valid = "a constant metric description must be valid";
        let gauge = |name: &str, help: &str| {
            GaugeVec::new(Opts::new(format!("node_collector_{name}"), format!("[ALPHA] {help}")), &["zone"])
                .expect(valid)
        };
        let histogram = |name: &str, help: &str, start: f64| {
            let buckets = exponential_buckets(start, 4.0, 8).expect(valid);
            let help =
                format!("[ALPHA] Duration in seconds for NodeController to update the health of {help}.");
            let name = format!("node_collector_update_{name}_health_duration_seconds");
            Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets)).expect(valid)
        };
        let evictions = Opts::new(
            "node_collector_evictions_total",
            "[STABLE] Number of Node evictions that happened since current instance of NodeController started.",
        );
        Self {
            zone_health: gauge("zone_health", "Gauge measuring percentage of healthy nodes per zone."),
            zone_size: gauge("zone_size", "Gauge measuring number of registered Nodes per zones."),
            unhealthy: gauge(
                "unhealthy_nodes_in_zone",
                "Gauge measuring number of not Ready Nodes per zones.",
            ),
            evictions: IntCounterVec::new(evictions, &["zone"]).expect(valid),
            node: histogram("node", "a single node", 0.001),
            all_nodes: histogram("all_nodes", "all nodes", 0.01),
        }
    }

    /// Registers the families with `registry`.
    ///
    /// # Errors
    /// If `registry` already has a family of one of these names.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        for gauge in [&self.zone_health, &self.zone_size, &self.unhealthy] {
            registry.register(Box::new(gauge.clone()))?;
        }
        registry.register(Box::new(self.evictions.clone()))?;
        registry.register(Box::new(self.node.clone()))?;
        registry.register(Box::new(self.all_nodes.clone()))
    }

    /// Shows the count of a zone's nodes. An empty zone is wholly healthy.
    pub(super) fn zone(&self, zone: &str, ready: usize, unready: usize) {
        let count = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let size = count(ready + unready);
        let health = if ready + unready == 0 { 100.0 } else { 100.0 * count(ready) / size };
        self.zone_size.with_label_values(&[zone]).set(size);
        self.unhealthy.with_label_values(&[zone]).set(count(unready));
        self.zone_health.with_label_values(&[zone]).set(health);
        // Shows the counter of a zone without evictions.
        self.evictions.with_label_values(&[zone]).inc_by(0);
    }

    /// Counts a node that got a taint with the effect `NoExecute`.
    pub(super) fn evicted(&self, zone: &str) {
        self.evictions.with_label_values(&[zone]).inc();
    }

    /// Records how long the look at one node took.
    pub(super) fn looked_at_node(&self, took: Duration) {
        self.node.observe(took.as_secs_f64());
    }

    /// Records how long the round over all nodes that changed took.
    pub(super) fn looked_at_all(&self, took: Duration) {
        self.all_nodes.observe(took.as_secs_f64());
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
