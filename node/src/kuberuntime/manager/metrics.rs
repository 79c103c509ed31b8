//! What is counted of pods and containers, under the kubelet's names.

use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};

/// The counters; clones are the same series.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(super) started_pods: IntCounter,
    pub(super) started_pods_errors: IntCounter,
    pub(super) started_containers: IntCounterVec,
    pub(super) started_containers_errors: IntCounterVec,
    pub(super) run_sandbox: HistogramVec,
    pub(super) run_sandbox_errors: IntCounterVec,
    pub(super) resize: HistogramVec,
    pub(crate) http_fallbacks: IntCounter,
}

/// In milliseconds.
const RESIZE_BUCKETS: [f64; 14] = [
    10.0, 50.0, 100.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 30000.0, 60000.0, 120000.0, 300000.0,
    600000.0,
];

impl Metrics {
    /// Counters that nobody can read yet.
    ///
    /// # Errors
    /// If a description is refused.
    pub fn new() -> prometheus::Result<Self> {
        Ok(Self {
            started_pods: IntCounter::new("kubelet_started_pods_total", "Cumulative number of pods started")?,
            started_pods_errors: IntCounter::new(
                "kubelet_started_pods_errors_total",
                "Cumulative number of errors when starting pods",
            )?,
            started_containers: IntCounterVec::new(
                Opts::new("kubelet_started_containers_total", "Cumulative number of containers started"),
                &["container_type"],
            )?,
            started_containers_errors: IntCounterVec::new(
                Opts::new(
                    "kubelet_started_containers_errors_total",
                    "Cumulative number of errors when starting containers",
                ),
                &["container_type", "code"],
            )?,
            run_sandbox: HistogramVec::new(
                HistogramOpts::new(
                    "kubelet_run_podsandbox_duration_seconds",
                    "Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.",
                ),
                &["runtime_handler"],
            )?,
            run_sandbox_errors: IntCounterVec::new(
                Opts::new(
                    "kubelet_run_podsandbox_errors_total",
                    "Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.",
                ),
                &["runtime_handler"],
            )?,
            resize: HistogramVec::new(
                HistogramOpts::new(
                    "kubelet_pod_resize_duration_milliseconds",
                    "Duration in milliseconds to actuate a pod resize",
                )
                .buckets(RESIZE_BUCKETS.to_vec()),
                &["success"],
            )?,
            http_fallbacks: IntCounter::new(
                "kubelet_lifecycle_handler_http_fallbacks_total",
                "The number of times lifecycle handlers successfully fell back to http from https.",
            )?,
        })
    }

    /// Puts them all into `registry`.
    ///
    /// # Errors
    /// If one of them is there already.
    pub fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        let all: [Box<dyn Collector>; 8] = [
            Box::new(self.started_pods.clone()),
            Box::new(self.started_pods_errors.clone()),
            Box::new(self.started_containers.clone()),
            Box::new(self.started_containers_errors.clone()),
            Box::new(self.run_sandbox.clone()),
            Box::new(self.run_sandbox_errors.clone()),
            Box::new(self.resize.clone()),
            Box::new(self.http_fallbacks.clone()),
        ];
        all.into_iter().try_for_each(|metric| registry.register(metric))
    }
}
