//! The cached fields of services, in groups.

use steersman_api::ArcStr;
use steersman_api::meta::LabelMap;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, IntOrString, WireError};
use steersman_informer::{Interned, kind, projection};

use super::ip::IpFamily;
use super::shared::{Shared, pooled};
use super::topology_mode::TopologyMode;

projection! {
    /// The pods that a service leads to, and how clients reach them.
    pub struct Routing {
        /// The service's ports. A headless service may have none.
        pub ports: Vec<ServicePort> = 1 "ports",
        /// The labels that a pod must have. Empty selects no pod: then another party writes the service's Endpoints.
        pub selector: LabelMap = 2 "selector",
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

    /// How a service is reached from outside the cluster.
    #[derive(Eq, Hash)]
    pub struct Exposure {
        /// The number of ports.
        pub ports: PortCounts = 1 "ports",
        /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
        pub kind: Interned = 4 "type",
        /// Whether the ports of a load balancer get node ports. `None` means that they do.
        pub allocate_node_ports: Option<bool> = 20 "allocateLoadBalancerNodePorts",
    }

    /// A port of a service, of which only the node port is read.
    struct NodePort {
        pub node_port: i32 = 5 "nodePort",
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

pooled!(Exposure);

/// The number of a service's ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortCounts {
    /// All ports.
    pub all: u32,
    /// Those with a node port.
    pub with_node_port: u32,
}

impl PortCounts {
    fn add(&mut self, port: &NodePort) {
        self.all += 1;
        self.with_node_port += u32::from(port.node_port != 0);
    }
}

impl FieldValue for PortCounts {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut port = NodePort::default();
        port.merge(field)?;
        self.add(&port);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut counts = Self::default();
        Vec::from_json(deserializer)?.iter().for_each(|port| counts.add(port));
        Ok(counts)
    }
}

kind! {
    /// A service.
    pub struct Service("", "v1", "services") {
        routing: Routing = 2 "spec",
        hinting: Hinting = 1 "metadata",
        exposure: Shared<Exposure> = 2 "spec",
    }
}
