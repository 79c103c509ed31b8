//! What the generator tells about itself, under the kubelet's names.

use std::time::Duration;

use jiff::Timestamp;
use prometheus::core::Collector;
use prometheus::{Gauge, Histogram, HistogramOpts, IntCounter, IntGauge, IntGaugeVec, Opts, Registry};

use super::MetricsError;
use crate::container::{ContainerState, RuntimePod, SandboxState};

/// The metrics of one generator; clones are the same series.
#[derive(Clone, Debug)]
pub struct Metrics {
    relist_duration: Histogram,
    relist_interval: Histogram,
    pod_relist_duration: Histogram,
    discarded: IntCounter,
    last_seen: Gauge,
    running_pods: IntGauge,
    running_containers: IntGaugeVec,
}

impl Metrics {
    /// Metrics that nobody can read yet.
    ///
    /// # Errors
    /// If a description is refused.
    pub fn new() -> Result<Self, MetricsError> {
        let histogram = |name: &str, help: &str| Histogram::with_opts(HistogramOpts::new(name, help));
        let all = || {
            Ok(Self {
                relist_duration: histogram(
                    "kubelet_pleg_relist_duration_seconds",
                    "Duration in seconds for relisting pods in PLEG.",
                )?,
                relist_interval: histogram(
                    "kubelet_pleg_relist_interval_seconds",
                    "Interval in seconds between relisting in PLEG.",
                )?,
                pod_relist_duration: histogram(
                    "kubelet_pleg_pod_relist_duration_seconds",
                    "Duration in seconds for relisting a single pod in PLEG.",
                )?,
                discarded: IntCounter::new(
                    "kubelet_pleg_discard_events",
                    "The number of discard events in PLEG.",
                )?,
                last_seen: Gauge::new(
                    "kubelet_pleg_last_seen_seconds",
                    "Timestamp in seconds when PLEG was last seen active.",
                )?,
                running_pods: IntGauge::new(
                    "kubelet_running_pods",
                    "Number of pods that have a running pod sandbox",
                )?,
                running_containers: IntGaugeVec::new(
                    Opts::new("kubelet_running_containers", "Number of containers currently running"),
                    &["container_state"],
                )?,
            })
        };
        all().map_err(MetricsError::Describe)
    }

    /// Puts them all into `registry`.
    ///
    /// # Errors
    /// If one of them is there already.
    pub fn register(&self, registry: &Registry) -> Result<(), MetricsError> {
        let all: [Box<dyn Collector>; 7] = [
            Box::new(self.relist_duration.clone()),
            Box::new(self.relist_interval.clone()),
            Box::new(self.pod_relist_duration.clone()),
            Box::new(self.discarded.clone()),
            Box::new(self.last_seen.clone()),
            Box::new(self.running_pods.clone()),
            Box::new(self.running_containers.clone()),
        ];
        all.into_iter().try_for_each(|metric| registry.register(metric)).map_err(MetricsError::Register)
    }

    /// A list of all pods ended, well or not.
    pub(super) fn relisted(&self, took: Duration) {
        self.relist_duration.observe(took.as_secs_f64());
    }

    /// A list began, so long after the one before that succeeded.
    pub(super) fn relist_began(&self, since_last: Duration) {
        self.relist_interval.observe(since_last.as_secs_f64());
    }

    /// A list of one pod ended, well or not.
    pub(super) fn pod_relisted(&self, took: Duration) {
        self.pod_relist_duration.observe(took.as_secs_f64());
    }

    /// Nobody took an event in time.
    pub(super) fn event_discarded(&self) {
        self.discarded.inc();
    }

    /// A list of all pods succeeded.
    pub(super) fn seen(&self, pods: &[RuntimePod], now: Timestamp) {
        #[allow(clippy::cast_precision_loss)]
        // Seconds stay below 2^52 for as long as stamps can be written.
        self.last_seen.set(now.as_second() as f64);
        let count = |of: usize| i64::try_from(of).unwrap_or(i64::MAX);
        let ready =
            |pod: &&RuntimePod| pod.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready);
        self.running_pods.set(count(pods.iter().filter(ready).count()));
        for state in ContainerState::ALL {
            let containers = pods.iter().flat_map(|pod| &pod.containers);
            let number = containers.filter(|container| container.state == state).count();
            self.running_containers.with_label_values(&[state.as_str()]).set(count(number));
        }
    }

    #[cfg(test)]
    pub(super) fn discarded(&self) -> u64 {
        self.discarded.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pleg::generic::testing::{pod, with_sandbox};

    #[test]
    fn series_have_the_kubelets_names() {
        let (registry, metrics) = (Registry::new(), Metrics::new().unwrap());
        metrics.register(&registry).unwrap();
        let running = with_sandbox(
            pod("a", &[("a1", ContainerState::Running), ("a2", ContainerState::Exited)]),
            "s1",
            SandboxState::Ready,
        );
        let dead = with_sandbox(pod("b", &[("b1", ContainerState::Exited)]), "s2", SandboxState::NotReady);
        metrics.seen(&[running, dead], Timestamp::from_second(1_700_000_000).unwrap());
        metrics.relisted(Duration::from_millis(3));
        metrics.relist_began(Duration::from_secs(1));
        metrics.pod_relisted(Duration::from_millis(20));
        metrics.event_discarded();
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "kubelet_pleg_relist_duration_seconds_bucket{le=\"0.005\"} 1",
            "kubelet_pleg_relist_interval_seconds_bucket{le=\"1\"} 1",
            "kubelet_pleg_pod_relist_duration_seconds_bucket{le=\"0.01\"} 0",
            "kubelet_pleg_pod_relist_duration_seconds_count 1",
            "kubelet_pleg_discard_events 1",
            "kubelet_pleg_last_seen_seconds 1700000000",
            "kubelet_running_pods 1",
            "kubelet_running_containers{container_state=\"running\"} 1",
            "kubelet_running_containers{container_state=\"exited\"} 2",
            "kubelet_running_containers{container_state=\"created\"} 0",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is missing in\n{text}");
        }
    }
}
