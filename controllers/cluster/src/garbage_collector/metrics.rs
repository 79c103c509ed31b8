//! The collector's metrics.

use std::sync::{Arc, Weak};

use prometheus::core::{Collector as Collects, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, IntCounter, IntGauge, IntGaugeVec, Opts, Registry};

use super::collector::Collector;

/// The collector's own counts.
#[derive(Clone)]
pub(super) struct Metrics {
    /// Discoveries that failed, and sets of kinds that could not be listed in time.
    pub(super) sync_errors: IntCounter,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let sync_errors = IntCounter::new(
            "garbagecollector_controller_resources_sync_error_total",
            "[ALPHA] Number of garbage collector resources sync errors",
        );
        Self { sync_errors: sync_errors.expect("a constant description must be valid") }
    }

    /// Serves the metrics from `registry`, with the size of the graph.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub(super) fn register(&self, registry: &Registry, collector: &Arc<Collector>) -> Result<(), Error> {
        registry.register(Box::new(self.sync_errors.clone()))?;
        registry.register(Box::new(GraphSize::new(Arc::downgrade(collector))?))
    }
}

/// The size of the graph, measured at each scrape.
struct GraphSize {
    collector: Weak<Collector>,
    nodes: IntGauge,
    edges: IntGauge,
    bytes: IntGaugeVec,
}

impl GraphSize {
    fn new(collector: Weak<Collector>) -> Result<Self, Error> {
        let gauge = |name: &str, help: &str| {
            IntGauge::new(format!("garbage_collector_graph_{name}"), help.to_owned())
        };
        let bytes =
            Opts::new("garbage_collector_graph_bytes", "Memory of the graph's nodes and of its edges");
        Ok(Self {
            collector,
            nodes: gauge("nodes", "Number of objects in the graph: those with owners or dependents")?,
            edges: gauge("edges", "Number of owner references in the graph")?,
            bytes: IntGaugeVec::new(bytes, &["part"])?,
        })
    }
}

impl Collects for GraphSize {
    fn desc(&self) -> Vec<&Desc> {
        [self.nodes.desc(), self.edges.desc(), self.bytes.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(collector) = self.collector.upgrade() else { return Vec::new() };
        let [nodes, edges] = collector.graph.lock().size();
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.nodes.set(number(nodes.0));
        self.edges.set(number(edges.0));
        self.bytes.with_label_values(&["nodes"]).set(number(nodes.1));
        self.bytes.with_label_values(&["edges"]).set(number(edges.1));
        [self.nodes.collect(), self.edges.collect(), self.bytes.collect()].concat()
    }
}
