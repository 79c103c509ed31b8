//! Metrics of syncs and controllers.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry};

/// The manager's name in `running_managed_controllers`. It is upstream's, since dashboards select by it.
const MANAGER: &str = "kube-controller-manager";

/// Bounds of the histogram of busy times, in seconds. No sync is to take longer than 0.1 s, even of a Job with 2,000 pods at a time:
/// `benches/completions.sh`.
const BUSY_SECONDS: [f64; 9] = [0.0001, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0];

/// The metric families of syncs and controllers. Clones share them. They count whether they are registered or not.
#[derive(Clone, Debug)]
pub struct Metrics {
    syncs: IntCounterVec,
    busy: HistogramVec,
    panics: IntCounterVec,
    dropped: IntCounterVec,
    running: IntGaugeVec,
}

/// How a sync ended: the values of the label `result`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    Synced,
    Behind,
    Failed,
}

impl Metrics {
    /// Families without samples.
    pub fn new() -> Self {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(name, help), labels)
                .expect("a constant metric description must be valid")
        };
        let busy = HistogramOpts::new(
            "steersman_controller_sync_busy_seconds",
            "How long a sync kept its thread busy, without the time that it waited for calls",
        );
        let running =
            Opts::new("running_managed_controllers", "Whether an instance of a controller is running here");
        Self {
            syncs: counter(
                "steersman_controller_syncs_total",
                "Number of syncs by result: synced, behind (parked until the cache has caught up), failed",
                &["controller", "result"],
            ),
            busy: HistogramVec::new(busy.buckets(BUSY_SECONDS.to_vec()), &["controller"])
                .expect("a constant metric description must be valid"),
            panics: counter(
                "steersman_controller_panics_total",
                "Number of panics in syncs and loops",
                &["controller"],
            ),
            dropped: counter(
                "steersman_controller_dropped_keys_total",
                "Number of keys that were dropped after too many failures",
                &["controller"],
            ),
            running: IntGaugeVec::new(running, &["name", "manager"])
                .expect("a constant metric description must be valid"),
        }
    }

    /// Registers the families with `registry`.
    ///
    /// # Errors
    /// If the registry already has a family of one of these names.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        for counter in [&self.syncs, &self.panics, &self.dropped] {
            registry.register(Box::new(counter.clone()))?;
        }
        registry.register(Box::new(self.busy.clone()))?;
        registry.register(Box::new(self.running.clone()))
    }

    pub(super) fn synced(&self, controller: &str, outcome: Outcome) {
        let result = match outcome {
            Outcome::Synced => "synced",
            Outcome::Behind => "behind",
            Outcome::Failed => "failed",
        };
        self.syncs.with_label_values(&[controller, result]).inc();
    }

    /// Observes for how long a sync kept its thread busy.
    pub(super) fn busy(&self, controller: &str, time: Duration) {
        self.busy.with_label_values(&[controller]).observe(time.as_secs_f64());
    }

    /// The counter of a controller's panics. It exists from the start, so that an alert sees the first panic as an
    /// increase.
    pub(super) fn panics(&self, controller: &str) -> IntCounter {
        self.panics.with_label_values(&[controller])
    }

    pub(super) fn dropped(&self, controller: &str) {
        self.dropped.with_label_values(&[controller]).inc();
    }

    /// Marks the controller as running until the returned value is dropped.
    pub(super) fn running(&self, controller: &'static str) -> RunningMark {
        self.running.with_label_values(&[controller, MANAGER]).set(1);
        RunningMark { metrics: self.clone(), controller }
    }

    /// Creates the metrics of a controller that does not run yet.
    pub(super) fn built(&self, controller: &str) {
        self.panics(controller);
        self.stopped(controller);
    }

    fn stopped(&self, controller: &str) {
        self.running.with_label_values(&[controller, MANAGER]).set(0);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Marks a controller as running until it is dropped.
pub(super) struct RunningMark {
    metrics: Metrics,
    controller: &'static str,
}

impl Drop for RunningMark {
    fn drop(&mut self) {
        self.metrics.stopped(self.controller);
    }
}
