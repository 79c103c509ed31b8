//! The tolerations that every pod of a DaemonSet has.

/// A toleration of all taints with a key and an effect, whatever their value.
#[derive(Clone, Copy, Debug)]
pub(super) struct DefaultToleration {
    /// The key of the taints.
    pub key: &'static str,
    /// The effect of the taints.
    pub effect: &'static str,
    /// Whether only pods that use the node's network have the toleration.
    pub host_network_only: bool,
}

const fn tolerate(key: &'static str, effect: &'static str) -> DefaultToleration {
    DefaultToleration { key, effect, host_network_only: false }
}

/// The tolerations that the controller adds to the template's, in upstream's order: a problem of a node ends none of its
/// daemons, and keeps none away. Upstream's `AddOrUpdateDaemonPodTolerations`.
pub(super) const DEFAULTS: [DefaultToleration; 7] = [
    tolerate("node.kubernetes.io/not-ready", "NoExecute"),
    tolerate("node.kubernetes.io/unreachable", "NoExecute"),
    tolerate("node.kubernetes.io/disk-pressure", "NoSchedule"),
    tolerate("node.kubernetes.io/memory-pressure", "NoSchedule"),
    tolerate("node.kubernetes.io/pid-pressure", "NoSchedule"),
    tolerate("node.kubernetes.io/unschedulable", "NoSchedule"),
    DefaultToleration {
        key: "node.kubernetes.io/network-unavailable",
        effect: "NoSchedule",
        host_network_only: true,
    },
];
