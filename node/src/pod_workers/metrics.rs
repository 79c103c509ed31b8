//! What is measured of pods and their workers, under the kubelet's names.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use super::known::{Known, KnownConfig, Lifecycle};
use crate::pod_config::annotations::{CONFIG_SEEN, annotation};

/// `le` bounds in seconds; upstream: `podStartupDurationBuckets`.
const START_SECONDS: [f64; 25] = [
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0,
    480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// The families. A clone counts into the same ones. They work whether or not they are registered.
#[derive(Debug, Clone)]
pub struct Metrics {
    worker_duration: HistogramVec,
    worker_start_duration: Histogram,
    start_duration: Histogram,
    containers_per_pod: Histogram,
    desired: IntGaugeVec,
    active: IntGaugeVec,
    mirrors: IntGauge,
    working: IntGaugeVec,
    orphaned: IntCounter,
    restarted: IntCounterVec,
    panics: IntCounter,
}

/// How many pods come from the API server, and how many are static.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// From the API server.
    pub regular: usize,
    /// From manifests.
    pub statics: usize,
}

impl Metrics {
    /// New families, all empty.
    pub fn new() -> Self {
        let histogram = |name: &str, help: &str| HistogramOpts::new(name, help);
        let made =
            |opts: HistogramOpts| Histogram::with_opts(opts).expect("the histogram's options must be valid");
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            IntGaugeVec::new(Opts::new(name, help), labels).expect("the gauge's options must be valid")
        };
        let worker_duration = histogram(
            "kubelet_pod_worker_duration_seconds",
            "Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync",
        );
        let start_duration = histogram(
            "kubelet_pod_start_duration_seconds",
            "Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
        );
        let containers_per_pod =
            histogram("kubelet_containers_per_pod_count", "The number of containers per pod.");
        let restarted = Opts::new(
            "kubelet_restarted_pods_total",
            "Number of pods that have been restarted because they were deleted and recreated with the same UID while the \
             kubelet was watching them (common for static pods, extremely uncommon for API pods)",
        );
        Self {
            worker_duration: HistogramVec::new(worker_duration, &["operation_type"])
                .expect("the histogram's options must be valid"),
            worker_start_duration: made(histogram(
                "kubelet_pod_worker_start_duration_seconds",
                "Duration in seconds from kubelet seeing a pod to starting a worker.",
            )),
            start_duration: made(start_duration.buckets(START_SECONDS.to_vec())),
            containers_per_pod: made(containers_per_pod.buckets(vec![1.0, 2.0, 4.0, 8.0, 16.0])),
            desired: gauges(
                "kubelet_desired_pods",
                "The number of pods the kubelet is being instructed to run. static is true if the pod is not from the \
                 apiserver.",
                &["static"],
            ),
            active: gauges(
                "kubelet_active_pods",
                "The number of pods the kubelet considers active and which are being considered when admitting new pods. \
                 static is true if the pod is not from the apiserver.",
                &["static"],
            ),
            mirrors: IntGauge::new(
                "kubelet_mirror_pods",
                "The number of mirror pods the kubelet will try to create (one per admitted static pod)",
            )
            .expect("the gauge's options must be valid"),
            working: gauges(
                "kubelet_working_pods",
                "Number of pods the kubelet is actually running, broken down by lifecycle phase, whether the pod is \
                 desired, orphaned, or runtime only (also orphaned), and whether the pod is static. An orphaned pod has \
                 been removed from local configuration or force deleted in the API and consumes resources that are not \
                 otherwise visible.",
                &["lifecycle", "config", "static"],
            ),
            orphaned: IntCounter::new(
                "kubelet_orphaned_runtime_pods_total",
                "Number of pods that have been detected in the container runtime without being already known to the pod \
                 worker. This typically indicates the kubelet was restarted while a pod was force deleted in the API or \
                 in the local configuration, which is unusual.",
            )
            .expect("the counter's options must be valid"),
            restarted: IntCounterVec::new(restarted, &["static"]).expect("the counter's options must be valid"),
            panics: IntCounter::new(
                "steersman_pod_worker_panics_total",
                "Panics in syncs of pods, which were caught",
            )
            .expect("the counter's options must be valid"),
        }
    }

    /// Makes them part of what a process tells.
    ///
    /// # Errors
    /// Another family has one of the names.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        let all: [Box<dyn Collector>; 11] = [
            Box::new(self.worker_duration.clone()),
            Box::new(self.worker_start_duration.clone()),
            Box::new(self.start_duration.clone()),
            Box::new(self.containers_per_pod.clone()),
            Box::new(self.desired.clone()),
            Box::new(self.active.clone()),
            Box::new(self.mirrors.clone()),
            Box::new(self.working.clone()),
            Box::new(self.orphaned.clone()),
            Box::new(self.restarted.clone()),
            Box::new(self.panics.clone()),
        ];
        all.into_iter().try_for_each(|family| registry.register(family))
    }

    /// The pod, which was not running before, runs now. For who writes its status, once a pod.
    pub fn pod_runs(&self, pod: &Pod, now: Timestamp) {
        if let Some(since_seen) = since_seen(pod, now) {
            self.start_duration.observe(since_seen.as_secs_f64());
        }
    }

    /// A worker took this long to carry out an update of that kind, or, where it is `terminated`, to end.
    pub(super) fn worked(&self, operation: &str, took: Duration) {
        self.worker_duration.with_label_values(&[operation]).observe(took.as_secs_f64());
    }

    /// The pod's worker began to take it towards its spec for the first time.
    pub(super) fn worker_started(&self, pod: &Pod, now: Timestamp) {
        if let Some(since_seen) = since_seen(pod, now) {
            self.worker_start_duration.observe(since_seen.as_secs_f64());
        }
    }

    /// The pod may start.
    pub(super) fn admitted(&self, pod: &Pod) {
        let containers = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
        self.containers_per_pod.observe(f64::from(u32::try_from(containers).unwrap_or(u32::MAX)));
    }

    pub(super) fn panicked(&self) {
        self.panics.inc();
    }

    /// How many panics there were.
    #[cfg(test)]
    pub(super) fn panics(&self) -> u64 {
        self.panics.get()
    }

    /// What there is at one housekeeping: the pods of all sources, those of them that have not ended, and mirrors.
    pub fn count_pods(&self, desired: Counts, active: Counts, mirrors: usize) {
        for (gauges, counts) in [(&self.desired, desired), (&self.active, active)] {
            gauges.with_label_values(&[""]).set(whole(counts.regular));
            gauges.with_label_values(&["true"]).set(whole(counts.statics));
        }
        self.mirrors.set(whole(mirrors));
    }

    /// Pods of which a housekeeping found that they must start over, and pods that only the runtime knew.
    pub fn count_repairs(&self, restarted: Counts, orphaned: usize) {
        let add = |label: &str, count: usize| self.restarted.with_label_values(&[label]).inc_by(count as u64);
        add("true", restarted.statics);
        add("", restarted.regular);
        self.orphaned.inc_by(orphaned as u64);
    }

    /// The pods that have a worker.
    pub fn count_working<'a>(&self, known: impl IntoIterator<Item = &'a Known>) {
        let mut counts: HashMap<Known, usize> = HashMap::new();
        for pod in known {
            *counts.entry(*pod).or_default() += 1;
        }
        // Series that have no pods are told as zero, so that graphs do not break off.
        for (orphan, config, words) in [
            (false, KnownConfig::Static, ("desired", "true")),
            (false, KnownConfig::Regular, ("desired", "")),
            (true, KnownConfig::Static, ("orphan", "true")),
            (true, KnownConfig::Regular, ("orphan", "")),
            (true, KnownConfig::None, ("runtime_only", "unknown")),
        ] {
            for lifecycle in Lifecycle::ALL {
                let count = counts.get(&Known { lifecycle, orphan, config }).copied().unwrap_or_default();
                let labels = [lifecycle.as_str(), words.0, words.1];
                self.working.with_label_values(&labels).set(whole(count));
            }
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// How long ago this node first saw the pod.
fn since_seen(pod: &Pod, now: Timestamp) -> Option<Duration> {
    let seen: Timestamp = annotation(pod, CONFIG_SEEN)?.parse().ok()?;
    now.duration_since(seen).try_into().ok()
}
