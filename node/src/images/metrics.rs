//! What is measured of images, under the kubelet's names.

use std::time::Duration;

use prometheus::{Error, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry};

/// The families. A clone counts into the same ones. They work whether or not they are registered.
#[derive(Debug, Clone)]
pub struct Metrics {
    pull_duration: HistogramVec,
    ensure_requests: IntCounterVec,
    must_pull_checks: IntCounterVec,
    intents: IntGauge,
    pulled_records: IntGauge,
}

/// How it ended to ask whether a pod must pull an image that is at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MustPull {
    CredentialPolicyAllowed,
    CredentialRecordFound,
    MustAuthenticate,
    Error,
}

/// `le` bounds in seconds; upstream: pkg/kubelet/metrics.
const SECONDS: [f64; 18] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0,
    2700.0, 3600.0,
];

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// An image's size as a label, by the size in bytes that it exceeds.
const SIZES: [(u64, &str); 12] = [
    (100 * GIB, "GT100GB"),
    (60 * GIB, "60GB-100GB"),
    (40 * GIB, "40GB-60GB"),
    (30 * GIB, "30GB-40GB"),
    (20 * GIB, "20GB-30GB"),
    (10 * GIB, "10GB-20GB"),
    (5 * GIB, "5GB-10GB"),
    (GIB, "1GB-5GB"),
    (500 * MIB, "500MB-1GB"),
    (100 * MIB, "100MB-500MB"),
    (10 * MIB, "10MB-100MB"),
    (0, "0-10MB"),
];

impl Metrics {
    /// New families, all empty.
    pub fn new() -> Self {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(name, help), labels).expect("names and labels must be well-formed")
        };
        let gauge = |name: &str, help: &str| IntGauge::new(name, help).expect("names must be well-formed");
        let pull_duration = HistogramOpts::new(
            "kubelet_image_pull_duration_seconds",
            "Duration in seconds to pull an image.",
        );
        Self {
            pull_duration: HistogramVec::new(
                pull_duration.buckets(SECONDS.to_vec()),
                &["image_size_in_bytes"],
            )
            .expect("names and labels must be well-formed"),
            ensure_requests: counter(
                "kubelet_image_manager_ensure_image_requests_total",
                "Number of ensure-image requests processed by the kubelet.",
                &["pull_policy", "present_locally", "pull_required"],
            ),
            must_pull_checks: counter(
                "kubelet_imagemanager_image_mustpull_checks_total",
                "Counter for how many times kubelet checked whether credentials need to be re-verified to access an image",
                &["result"],
            ),
            intents: gauge(
                "kubelet_imagemanager_ondisk_pullintents",
                "Number of ImagePullIntents stored on disk.",
            ),
            pulled_records: gauge(
                "kubelet_imagemanager_ondisk_pulledrecords",
                "Number of ImagePulledRecords stored on disk.",
            ),
        }
    }

    /// Makes them part of what a process tells.
    ///
    /// # Errors
    /// Another family has one of the names.
    pub fn register(&self, registry: &Registry) -> Result<(), Error> {
        registry.register(Box::new(self.pull_duration.clone()))?;
        registry.register(Box::new(self.ensure_requests.clone()))?;
        registry.register(Box::new(self.must_pull_checks.clone()))?;
        registry.register(Box::new(self.intents.clone()))?;
        registry.register(Box::new(self.pulled_records.clone()))
    }

    /// An image was pulled in that time, waiting included. A size of zero is not known.
    pub(super) fn pulled(&self, took: Duration, bytes: u64) {
        self.pull_duration.with_label_values(&[size_label(bytes)]).observe(took.as_secs_f64());
    }

    /// An image was asked for; `None` is what was not found out.
    pub(super) fn ensured(&self, policy: &str, present: Option<bool>, pull_required: Option<bool>) {
        let label = |known: Option<bool>| match known {
            Some(true) => "true",
            Some(false) => "false",
            None => "unknown",
        };
        let labels = [&*policy.to_lowercase(), label(present), label(pull_required)];
        self.ensure_requests.with_label_values(&labels).inc();
    }

    /// It was asked whether an image at hand must be pulled.
    pub(super) fn checked(&self, result: MustPull) {
        let label = match result {
            MustPull::CredentialPolicyAllowed => "credentialPolicyAllowed",
            MustPull::CredentialRecordFound => "credentialRecordFound",
            MustPull::MustAuthenticate => "mustAuthenticate",
            MustPull::Error => "error",
        };
        self.must_pull_checks.with_label_values(&[label]).inc();
    }

    /// So many records are on disk.
    pub(super) fn on_disk(&self, intents: usize, pulled: usize) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.intents.set(count(intents));
        self.pulled_records.set(count(pulled));
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn size_label(bytes: u64) -> &'static str {
    SIZES.iter().find(|(above, _)| bytes > *above).map_or("N/A", |(_, label)| label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_upstreams_labels() {
        for (bytes, label) in [
            (0, "N/A"),
            (1, "0-10MB"),
            (10 * MIB, "0-10MB"),
            (10 * MIB + 1, "10MB-100MB"),
            (2 * GIB, "1GB-5GB"),
            (u64::MAX, "GT100GB"),
        ] {
            assert_eq!(size_label(bytes), label, "{bytes}");
        }
    }

    #[test]
    fn all_families_can_be_registered() {
        let (metrics, registry) = (Metrics::new(), Registry::new());
        metrics.register(&registry).unwrap();
        metrics.ensured("IfNotPresent", Some(true), None);
        metrics.checked(MustPull::Error);
        metrics.pulled(Duration::from_secs(2), 5);
        let names: Vec<_> = registry.gather().iter().map(|family| family.name().to_owned()).collect();
        assert_eq!(
            names,
            [
                "kubelet_image_manager_ensure_image_requests_total",
                "kubelet_image_pull_duration_seconds",
                "kubelet_imagemanager_image_mustpull_checks_total",
                "kubelet_imagemanager_ondisk_pulledrecords",
                "kubelet_imagemanager_ondisk_pullintents",
            ]
        );
    }
}
