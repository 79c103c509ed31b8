//! The cached fields of services, in groups.

use steersman_api::ArcStr;
use steersman_api::meta::Labels;
use steersman_informer::wire::IntOrString;
use steersman_informer::{Interned, kind, projection};

use super::ip::IpFamily;
use super::topology_mode::TopologyMode;

projection! {
    /// The pods that a service leads to, and how clients reach them.
    pub struct Routing {
        /// The service's ports. A headless service may have none.
        pub ports: Vec<ServicePort> = 1 "ports",
        /// The labels that a pod must have. Empty selects no pod: then another party writes the service's Endpoints.
        pub selector: Labels = 2 "selector",
        /// The service's IP address. The text `None` for a headless service; empty for `ExternalName`, and before the
        /// API server has allocated an address.
        pub cluster_ip: ArcStr = 3 "clusterIP",
        /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
        pub kind: Interned = 4 "type",
        /// Whether all selected pods count as ready.
        pub publish_not_ready_addresses: bool = 13 "publishNotReadyAddresses",
        /// The service's IP families, the primary one first.
        pub ip_families: Vec<IpFamily> = 19 "ipFamilies",
        /// Which endpoints clients should prefer, such as `PreferSameZone`.
        pub traffic_distribution: Option<Interned> = 23 "trafficDistribution",
    }

    /// Whether the service asks for topology aware hints.
    pub struct Hinting {
        /// The annotations that ask for them.
        pub mode: TopologyMode = 12 "annotations",
    }

    /// A port of a service.
    pub struct ServicePort {
        /// The port's name, unique within the service. Empty only if the service has no other port.
        pub name: Interned = 1 "name",
        /// `TCP`, `UDP` or `SCTP`.
        pub protocol: Interned = 2 "protocol",
        /// The pod's port: its number, or its name in the pod's containers.
        pub target_port: IntOrString = 4 "targetPort",
        /// The application protocol, such as `kubernetes.io/h2c`.
        pub app_protocol: Option<Interned> = 6 "appProtocol",
    }
}

/// The value of `cluster_ip` of a headless service.
const HEADLESS: &str = "None";

impl Routing {
    /// Whether the service is headless: its spec asks for no address.
    pub fn is_headless(&self) -> bool {
        self.cluster_ip == HEADLESS
    }

    /// Whether the service has an address, as upstream's `IsServiceIPSet`.
    pub fn has_cluster_ip(&self) -> bool {
        !self.is_headless() && !self.cluster_ip.is_empty()
    }
}

kind! {
    /// A service.
    pub struct Service("", "v1", "services") {
        routing: Routing = 2 "spec",
        hinting: Hinting = 1 "metadata",
    }
}
