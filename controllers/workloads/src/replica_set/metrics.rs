//! Metrics of both controllers.

use std::sync::LazyLock;

use prometheus::{Error, Histogram, HistogramOpts, IntCounterVec, Opts, Registry, exponential_buckets};

/// The ReplicaSet controller's metrics. As upstream, only the ReplicaSet controller registers them.
pub(super) struct Metrics {
    /// Observed by the ReplicationController controller as well, as upstream.
    pub(super) age_ratio: Histogram,
    /// Counts syncs of ReplicaSets only.
    pub(super) stale_syncs: IntCounterVec,
}

static METRICS: LazyLock<Metrics> = LazyLock::new(Metrics::new);

impl Metrics {
    /// The metrics of this process.
    pub(super) fn shared() -> &'static Self {
        &METRICS
    }

    fn new() -> Self {
        let buckets = exponential_buckets(0.25, 2.0, 6).expect("constant buckets must be valid");
        let ratio = HistogramOpts::new(
            "replicaset_controller_sorting_deletion_age_ratio",
            "The ratio of the age of each ready pod that is deleted to the age of the youngest ready pod",
        );
        let stale = Opts::new(
            "replicaset_controller_stale_sync_skips_total",
            "Total number of ReplicaSet syncs skipped due to a stale watch cache.",
        );
        Self {
            age_ratio: Histogram::with_opts(ratio.buckets(buckets))
                .expect("a constant description must be valid"),
            stale_syncs: IntCounterVec::new(stale, &["group", "resource"])
                .expect("a constant description must be valid"),
        }
    }

    /// Serves the metrics from `registry`.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub(super) fn register(&self, registry: &Registry) -> Result<(), Error> {
        registry.register(Box::new(self.age_ratio.clone()))?;
        registry.register(Box::new(self.stale_syncs.clone()))
    }
}
