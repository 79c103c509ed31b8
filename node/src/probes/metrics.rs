//! What probes tell about themselves, under the kubelet's names.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

use super::ProbeKind;

/// The metrics of probes; clones are the same series.
#[derive(Clone, Debug)]
pub struct Metrics {
    total: IntCounterVec,
    duration: HistogramVec,
}

/// Why there are no metrics.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// A description is refused.
    #[error("describing the metrics of probes: {0}")]
    Describe(#[source] prometheus::Error),
    /// The registry has one of that name.
    #[error("registering the metrics of probes: {0}")]
    Register(#[source] prometheus::Error),
}

/// Whose probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Labels {
    pub(super) kind: ProbeKind,
    pub(super) container: String,
    pub(super) pod: String,
    pub(super) namespace: String,
    pub(super) pod_uid: String,
}

/// What came of a probe, in upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Successful,
    Failed,
    Unknown,
}

impl Found {
    const ALL: [Self; 3] = [Self::Successful, Self::Failed, Self::Unknown];

    fn as_str(self) -> &'static str {
        match self {
            Self::Successful => "successful",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

impl Metrics {
    /// Metrics that nobody can read yet.
    ///
    /// # Errors
    /// If a description is refused.
    pub fn new() -> Result<Self, MetricsError> {
        let total = IntCounterVec::new(
            Opts::new(
                "prober_probe_total",
                "Cumulative number of a liveness, readiness or startup probe for a container by result.",
            ),
            &["probe_type", "result", "container", "pod", "namespace", "pod_uid"],
        );
        let duration = HistogramVec::new(
            HistogramOpts::new("prober_probe_duration_seconds", "Duration in seconds for a probe response."),
            &["probe_type", "container", "pod", "namespace"],
        );
        Ok(Self {
            total: total.map_err(MetricsError::Describe)?,
            duration: duration.map_err(MetricsError::Describe)?,
        })
    }

    /// Puts them into `registry`; upstream serves them at `/metrics/probes`, apart from all others.
    ///
    /// # Errors
    /// If one of them is there already.
    pub fn register(&self, registry: &Registry) -> Result<(), MetricsError> {
        registry.register(Box::new(self.total.clone())).map_err(MetricsError::Register)?;
        registry.register(Box::new(self.duration.clone())).map_err(MetricsError::Register)
    }

    /// A probe came to an end. The time of those that fail is not told, as upstream.
    pub(super) fn probed(&self, labels: &Labels, found: Found, took: Duration) {
        self.total.with_label_values(&labels.of_total(found)).inc();
        if found != Found::Failed {
            self.duration.with_label_values(&labels.of_duration()).observe(took.as_secs_f64());
        }
    }

    /// There is no such probe any more.
    pub(super) fn forget(&self, labels: &Labels) {
        for found in Found::ALL {
            // What was never counted can't be removed.
            let _ = self.total.remove_label_values(&labels.of_total(found));
        }
        let _ = self.duration.remove_label_values(&labels.of_duration());
    }
}

impl Labels {
    fn of_total(&self, found: Found) -> [&str; 6] {
        [self.kind.as_str(), found.as_str(), &self.container, &self.pod, &self.namespace, &self.pod_uid]
    }

    fn of_duration(&self) -> [&str; 4] {
        [self.kind.as_str(), &self.container, &self.pod, &self.namespace]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_have_the_kubelets_names_and_go_with_their_probe() {
        let (registry, metrics) = (Registry::new(), Metrics::new().unwrap());
        metrics.register(&registry).unwrap();
        let labels = Labels {
            kind: ProbeKind::Readiness,
            container: "c".into(),
            pod: "p".into(),
            namespace: "n".into(),
            pod_uid: "u".into(),
        };
        metrics.probed(&labels, Found::Successful, Duration::from_millis(20));
        metrics.probed(&labels, Found::Failed, Duration::from_millis(20));
        let text = || prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let rest = "container=\"c\",namespace=\"n\",pod=\"p\"";
        let told = text();
        for line in [
            format!(
                "prober_probe_total{{{rest},pod_uid=\"u\",probe_type=\"Readiness\",result=\"successful\"}} 1"
            ),
            format!(
                "prober_probe_total{{{rest},pod_uid=\"u\",probe_type=\"Readiness\",result=\"failed\"}} 1"
            ),
            format!("prober_probe_duration_seconds_count{{{rest},probe_type=\"Readiness\"}} 1"),
        ] {
            assert!(told.lines().any(|have| have == line), "{line} is missing in\n{told}");
        }
        metrics.forget(&labels);
        assert_eq!(text(), "");
    }
}
