//! Services, in groups of fields.

use steersman_api::ArcStr;
use steersman_api::meta::Labels;
use steersman_informer::wire::IntOrString;
use steersman_informer::{Interned, kind, projection};

use super::ip::IpFamily;

projection! {
    /// Which pods it leads to, and how.
    pub struct Routing {
        /// Its ports; a headless service may have none.
        pub ports: Vec<ServicePort> = 1 "ports",
        /// A pod must have all of these labels. Empty selects no pod: somebody else says where the service leads.
        pub selector: Labels = 2 "selector",
        /// `None` for a headless service, empty before one is given out or for `ExternalName`.
        pub cluster_ip: ArcStr = 3 "clusterIP",
        /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
        pub kind: Interned = 4 "type",
        /// Whether pods count as ready whatever they say themselves.
        pub publish_not_ready_addresses: bool = 13 "publishNotReadyAddresses",
        /// The primary family first.
        pub ip_families: Vec<IpFamily> = 19 "ipFamilies",
    }

    /// A port of a service.
    pub struct ServicePort {
        /// Unique within the service; empty only if it is the only one.
        pub name: Interned = 1 "name",
        /// `TCP`, `UDP` or `SCTP`.
        pub protocol: Interned = 2 "protocol",
        /// The pod's port: its number, or the name that the pod's containers have for it.
        pub target_port: IntOrString = 4 "targetPort",
        /// Such as `kubernetes.io/h2c`.
        pub app_protocol: Option<Interned> = 6 "appProtocol",
    }
}

/// What `cluster_ip` says of a headless service.
const HEADLESS: &str = "None";

impl Routing {
    /// Whether it has no address of its own, by intent.
    pub fn is_headless(&self) -> bool {
        self.cluster_ip == HEADLESS
    }

    /// Whether it has an address of its own, as upstream's `IsServiceIPSet`.
    pub fn has_cluster_ip(&self) -> bool {
        !self.is_headless() && !self.cluster_ip.is_empty()
    }

    /// Whether a pod with these labels belongs to it.
    pub fn selects(&self, labels: &Labels) -> bool {
        !self.selector.is_empty() && self.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

kind! {
    /// A service.
    pub struct Service("", "v1", "services") {
        routing: Routing = 2 "spec",
    }
}
