//! The metrics of the controller, under upstream's names.

use prometheus::{
    Error, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry,
    exponential_buckets,
};

use super::cidr_set::{Activity, CidrSet};

const PREFIX: &str = "node_ipam_controller";
const LABELS: &[&str] = &["clusterCIDR"];

/// The families `node_ipam_controller_*`, by cluster range, and one of our own.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    allocations: IntCounterVec,
    releases: IntCounterVec,
    max: GaugeVec,
    usage: GaugeVec,
    tries: HistogramVec,
    free: IntGaugeVec,
}

impl Metrics {
    pub(super) fn new() -> Self {
        const VALID: &str = "a constant description must be valid";
        let opts = |name: &str, help: &str| Opts::new(format!("{PREFIX}_{name}"), format!("[ALPHA] {help}"));
        let counter = |name, help| IntCounterVec::new(opts(name, help), LABELS).expect(VALID);
        let gauge = |name, help| GaugeVec::new(opts(name, help), LABELS).expect(VALID);
        let buckets = exponential_buckets(1.0, 5.0, 5).expect(VALID);
        // The help is upstream's, which copied that of another metric.
        let tries =
            opts("cidrset_allocation_tries_per_request", "Number of endpoints added on each Service sync");
        let free = Opts::new(
            "steersman_node_ipam_free_cidrs",
            "Number of blocks of a cluster CIDR that nodes can still get",
        );
        Self {
            allocations: counter(
                "cidrset_cidrs_allocations_total",
                "Counter measuring total number of CIDR allocations.",
            ),
            releases: counter(
                "cidrset_cidrs_releases_total",
                "Counter measuring total number of CIDR releases.",
            ),
            // Upstream's spelling.
            max: gauge("cirdset_max_cidrs", "Maximum number of CIDRs that can be allocated."),
            usage: gauge("cidrset_usage_cidrs", "Gauge measuring percentage of allocated CIDRs."),
            tries: HistogramVec::new(HistogramOpts::from(tries).buckets(buckets), LABELS).expect(VALID),
            free: IntGaugeVec::new(free, LABELS).expect(VALID),
        }
    }

    /// Serves the metrics from `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub(super) fn register(&self, registry: &Registry) -> Result<(), Error> {
        registry.register(Box::new(self.allocations.clone()))?;
        registry.register(Box::new(self.releases.clone()))?;
        registry.register(Box::new(self.max.clone()))?;
        registry.register(Box::new(self.usage.clone()))?;
        registry.register(Box::new(self.tries.clone()))?;
        registry.register(Box::new(self.free.clone()))
    }

    /// Reports what happened to these blocks since the last report.
    #[allow(clippy::cast_precision_loss, reason = "a share needs no more than 53 bits")]
    pub(super) fn report(&self, sets: &mut [CidrSet]) {
        for set in sets {
            let Activity { allocations, releases, tries } = set.take_activity();
            let cluster = set.cluster().to_string();
            let label = &[cluster.as_str()];
            self.allocations.with_label_values(label).inc_by(allocations);
            self.releases.with_label_values(label).inc_by(releases);
            self.max.with_label_values(label).set(set.len() as f64);
            self.usage.with_label_values(label).set(set.used() as f64 / set.len() as f64);
            let free = i64::try_from(set.len() - set.used()).unwrap_or(i64::MAX);
            self.free.with_label_values(label).set(free);
            for tries in tries {
                self.tries.with_label_values(label).observe(tries as f64);
            }
        }
    }
}
