//! What is measured of the loop, under the kubelet's names.

use prometheus::{IntCounterVec, Opts, Registry};

/// Reasons that are told as they are; others have one word, so that nobody can make series without end.
const REASONS: [&str; 21] = [
    "AppArmor",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "PodOSNotSupported",
    "InvalidNodeInfo",
    "InitContainerRestartPolicyForbidden",
    "SupplementalGroupsPolicyNotSupported",
    "UnexpectedAdmissionError",
    "UnknownReason",
    "UnexpectedPredicateFailureType",
    "OutOfcpu",
    "OutOfmemory",
    "OutOfephemeral-storage",
    "OutOfpods",
    "PodLevelResourcesNotSupported",
    "PodFeatureUnsupported",
    "node(s) had taints that the pod didn't tolerate",
    "Evicted",
    "SysctlForbidden",
    "TopologyAffinityError",
    "NodeShutdown",
    "VolumeAttachmentLimitExceeded",
];

/// The families. A clone counts into the same ones. They work whether or not they are registered.
#[derive(Debug, Clone)]
pub struct Metrics {
    rejections: IntCounterVec,
    preemptions: IntCounterVec,
}

impl Metrics {
    /// New families, all empty.
    pub fn new() -> Self {
        let opts = Opts::new(
            "kubelet_admission_rejections_total",
            "Cumulative number pod admission rejections by the Kubelet.",
        );
        let rejections = IntCounterVec::new(opts, &["reason"]).expect("the counter's options must be valid");
        let opts =
            Opts::new("kubelet_preemptions", "Cumulative number of pod preemptions by preemption resource");
        let preemptions =
            IntCounterVec::new(opts, &["preemption_signal"]).expect("the counter's options must be valid");
        Self { rejections, preemptions }
    }

    /// Makes them part of what a process tells.
    ///
    /// # Errors
    /// Another family has one of the names.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.rejections.clone()))?;
        registry.register(Box::new(self.preemptions.clone()))
    }

    /// A pod was ended to make room, since this resource was short.
    pub fn preempted(&self, signal: &str) {
        self.preemptions.with_label_values(&[signal]).inc();
    }

    /// A pod was refused.
    pub fn rejected(&self, reason: &str) {
        let label = match reason {
            known if REASONS.contains(&known) => known,
            other if other.starts_with("OutOf") => "OutOfExtendedResources",
            _ => "Other",
        };
        self.rejections.with_label_values(&[label]).inc();
    }

    #[cfg(test)]
    pub(super) fn preemptions(&self, signal: &str) -> u64 {
        self.preemptions.with_label_values(&[signal]).get()
    }

    #[cfg(test)]
    pub(super) fn rejections(&self, label: &str) -> u64 {
        self.rejections.with_label_values(&[label]).get()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_make_no_series_without_end() {
        let metrics = Metrics::new();
        for reason in ["OutOfcpu", "OutOfexample.com/gpu", "OutOfexample.com/fpga", "Whim"] {
            metrics.rejected(reason);
        }
        let counts = ["OutOfcpu", "OutOfExtendedResources", "Other"].map(|label| metrics.rejections(label));
        assert_eq!(counts, [1, 2, 1]);
    }
}
