//! What is measured of statuses, under the kubelet's names.

use std::time::Duration;

use k8s_openapi::api::core::v1::ContainerStatus;
use prometheus::{Histogram, HistogramOpts, IntCounterVec, Opts, Registry};

use super::statuses::{Role, status_of, terminated};

/// The families. A clone counts into the same ones. They work whether or not they are registered.
#[derive(Debug, Clone)]
pub struct Metrics {
    sync_duration: Histogram,
    terminated_containers: IntCounterVec,
}

/// `le` bounds in seconds; upstream: pkg/kubelet/metrics.
const SECONDS: [f64; 11] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

impl Metrics {
    /// New families, all empty.
    pub fn new() -> Self {
        let sync_duration = HistogramOpts::new(
            "kubelet_pod_status_sync_duration_seconds",
            "Duration in seconds to sync a pod status update. Measures time from detection of a change to pod status until \
             the API is successfully updated for that pod, even if multiple intevening changes to pod status occur.",
        );
        let terminated_containers =
            Opts::new("kubelet_terminated_containers_total", "Cumulative number of container terminations.");
        Self {
            sync_duration: Histogram::with_opts(sync_duration.buckets(SECONDS.to_vec()))
                .expect("the histogram's options must be valid"),
            terminated_containers: IntCounterVec::new(
                terminated_containers,
                &["container_type", "exit_code", "reason"],
            )
            .expect("the counter's options must be valid"),
        }
    }

    /// Makes them part of what a process tells.
    ///
    /// # Errors
    /// Another family has one of the names.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.sync_duration.clone()))?;
        registry.register(Box::new(self.terminated_containers.clone()))
    }

    /// A status got to the API server, so long after it changed. In whole milliseconds.
    pub(super) fn synced(&self, after: Duration) {
        self.sync_duration.observe(
            Duration::from_millis(u64::try_from(after.as_millis()).unwrap_or(u64::MAX)).as_secs_f64(),
        );
    }

    /// Counts containers that ended between two statuses, each once.
    pub(super) fn count_ended(&self, role: Role, old: &[ContainerStatus], new: &[ContainerStatus]) {
        let role = match role {
            Role::Init => "init_container",
            Role::Ordinary => "container",
            Role::Ephemeral => "ephemeral_container",
        };
        for status in new {
            let before = status_of(old, &status.name).and_then(|old| terminated(old.state.as_ref()));
            if let (None, Some(ended)) = (before, terminated(status.state.as_ref())) {
                let reason = ended.reason.as_deref().unwrap_or_default();
                self.terminated_containers
                    .with_label_values(&[role, &ended.exit_code.to_string(), reason])
                    .inc();
            }
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
