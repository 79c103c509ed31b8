//! Pods, in groups of fields.

use steersman_api::condition::ConditionStatus;
use steersman_api::{ArcStr, Time};
use steersman_informer::{Interned, kind, projection};

projection! {
    /// Where a pod runs.
    pub struct Placement {
        /// Empty until it is scheduled.
        pub node: Interned = 10 "nodeName",
    }

    /// How far it is.
    pub struct Phase {
        /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
        pub phase: Interned = 1 "phase",
        /// Such as `Evicted` or `NodeLost`.
        pub reason: Interned = 4 "reason",
    }

    /// Its conditions.
    pub struct Conditions {
        /// One of a type at the most.
        pub conditions: Vec<PodCondition> = 2 "conditions",
    }

    /// How it is doing in one respect.
    pub struct PodCondition {
        /// Such as `Ready`.
        pub kind: Interned = 1 "type",
        /// Whether it holds.
        pub status: ConditionStatus = 2 "status",
        /// When that last changed.
        pub last_transition_time: Option<Time> = 4 "lastTransitionTime",
        /// One word for programs.
        pub reason: Interned = 5 "reason",
    }

    /// How it is reached.
    pub struct Addresses {
        /// The first of `ips`.
        pub ip: ArcStr = 6 "podIP",
        /// One of each family at the most.
        pub ips: Vec<PodIp> = 12 "podIPs",
    }

    /// An address.
    pub struct PodIp {
        /// IPv4 or IPv6.
        pub ip: ArcStr = 1 "ip",
    }
}

kind! {
    /// A pod.
    pub struct Pod("", "v1", "pods") {
        placement: Placement = 2 "spec",
        phase: Phase = 3 "status",
        conditions: Conditions = 3 "status",
        addresses: Addresses = 3 "status",
    }
}
