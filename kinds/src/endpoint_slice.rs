//! The cached fields of EndpointSlices, in groups.

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, LazyLock};

use steersman_api::ArcStr;
use steersman_api::meta::LabelMap;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, Group, WireError};
use steersman_informer::{Interned, kind, projection};

use super::endpoints::TargetRef;
use super::ip::IpFamily;

projection! {
    /// The annotations. A controller that replaces the object must write them back.
    pub struct Annotations {
        /// The annotations, by key.
        pub annotations: LabelMap = 12 "annotations",
    }

    /// A port that all endpoints of a slice offer.
    #[derive(Eq, Hash, PartialOrd, Ord)]
    pub struct Port {
        /// The name of the service's port. The API server sets it to the empty text if it is absent.
        pub name: Option<ArcStr> = 1 "name",
        /// `TCP`, `UDP` or `SCTP`. The API server sets it to `TCP` if it is absent.
        pub protocol: Option<ArcStr> = 2 "protocol",
        /// The port number that the endpoints listen on. Absent means all ports.
        pub port: Option<i32> = 3 "port",
        /// The application protocol of the service's port.
        pub app_protocol: Option<ArcStr> = 4 "appProtocol",
    }

    /// An endpoint as the API has it. Caches hold a [`Member`] instead.
    #[derive(Eq)]
    pub struct Endpoint {
        /// The addresses, all of the slice's address type.
        pub addresses: Vec<ArcStr> = 1 "addresses",
        /// The endpoint's state.
        pub conditions: Conditions = 2 "conditions",
        /// The pod's name within the service's domain.
        pub hostname: Option<ArcStr> = 3 "hostname",
        /// A reference to the pod.
        pub target_ref: Option<TargetRef> = 4 "targetRef",
        /// The node that the pod runs on.
        pub node_name: Option<ArcStr> = 6 "nodeName",
        /// The zone of that node.
        pub zone: Option<ArcStr> = 7 "zone",
        /// The clients that should use this endpoint.
        pub hints: Option<Hints> = 8 "hints",
    }

    /// The state of an endpoint.
    #[derive(Copy, Eq, Hash)]
    pub struct Conditions {
        /// Whether the endpoint should get traffic.
        pub ready: Option<bool> = 1 "ready",
        /// Whether the endpoint can respond, even while it terminates.
        pub serving: Option<bool> = 2 "serving",
        /// Whether the endpoint terminates.
        pub terminating: Option<bool> = 3 "terminating",
    }

    /// The clients that should use an endpoint.
    #[derive(Eq)]
    pub struct Hints {
        /// Clients in these zones.
        pub for_zones: Vec<Place> = 1 "forZones",
        /// Clients on these nodes.
        pub for_nodes: Vec<Place> = 2 "forNodes",
    }

    /// A zone or a node.
    #[derive(Eq)]
    pub struct Place {
        /// Its name.
        pub name: Interned = 1 "name",
    }
}

/// The kind of address that the endpoints of a slice have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressType {
    /// `IPv4`.
    #[default]
    Ipv4,
    /// `IPv6`.
    Ipv6,
    /// `FQDN`, or a type that this program does not know.
    Other,
}

impl AddressType {
    /// The type's name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Other => "FQDN",
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "IPv4" => Self::Ipv4,
            "IPv6" => Self::Ipv6,
            _ => Self::Other,
        }
    }
}

impl From<IpFamily> for AddressType {
    fn from(family: IpFamily) -> Self {
        match family {
            IpFamily::V4 => Self::Ipv4,
            IpFamily::V6 => Self::Ipv6,
        }
    }
}

impl fmt::Display for AddressType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Decodes the type from its name.
impl FieldValue for AddressType {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        *self = Self::named(field.text()?);
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ArcStr::from_json(deserializer).map(|name| Self::named(&name))
    }
}

/// The ports of a slice, in the slice's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports(pub Vec<Port>);

impl FieldValue for Ports {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.0.merge(field)
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::from_json(deserializer).map(Self)
    }
}

/// An endpoint in a cached slice: hashes instead of some 200 bytes of text. A controller compares an endpoint with the one
/// that it wants, and writes the one that it wants.
///
/// Different endpoints have the same hash with a probability of 2^-64. The hashes' keys are random, so hashes can be compared
/// within one process only, and users can't construct two endpoints with the same hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// A hash of what tells the endpoint from others: its addresses in any order, its hostname, and the namespace and name
    /// of its target. As upstream's `hashEndpoint`, this leaves out the target's uid.
    pub identity: u64,
    /// A hash of the fields that upstream's `EndpointsEqualBeyondHash` compares: conditions, node, zone and target. The
    /// target's `resourceVersion` and the hints are not among them.
    pub content: u64,
    /// The hints.
    pub hints: Option<Arc<Hints>>,
}

impl Member {
    /// The hashes of an endpoint.
    pub fn of(endpoint: &Endpoint) -> Self {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let Endpoint { addresses, conditions, hostname, target_ref, node_name, zone, hints } = endpoint;
        let mut addresses: Vec<&ArcStr> = addresses.iter().collect();
        addresses.sort_unstable();
        let target = target_ref.as_ref().map(|target| (&target.namespace, &target.name)).unzip();
        // For upstream an absent text is the same as an empty one.
        let text = |text: Option<&ArcStr>| text.cloned().unwrap_or_default();
        let identity = (addresses, text(hostname.as_ref()), text(target.0), text(target.1));
        let content = (conditions, node_name, zone, target_ref);
        Self {
            identity: KEYS.hash_one(identity),
            content: KEYS.hash_one(content),
            hints: hints.clone().map(Arc::new),
        }
    }
}

/// The endpoints of a slice, in the slice's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members(pub Vec<Member>);

impl FieldValue for Members {
    fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Member>()
    }

    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut endpoint = Endpoint::default();
        endpoint.merge(field)?;
        self.0.push(Member::of(&endpoint));
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Endpoint>::from_json(deserializer)
            .map(|endpoints| Self(endpoints.iter().map(Member::of).collect()))
    }
}

kind! {
    /// Endpoints of a service that have the same ports.
    pub struct EndpointSlice("discovery.k8s.io", "v1", "endpointslices") {
        annotations: Annotations = 1 "metadata",
        members: Members = 2 "endpoints",
        ports: Ports = 3 "ports",
        address_type: AddressType = 4 "addressType",
    }
}

impl EndpointSlice {
    /// The slice's annotations.
    ///
    /// # Panics
    /// If the slice was decoded without them.
    pub fn annotations(&self) -> &LabelMap {
        &Annotations::of(self).expect("a slice must be decoded with its annotations").annotations
    }

    /// The slice's endpoints.
    ///
    /// # Panics
    /// If the slice was decoded without them.
    pub fn members(&self) -> &[Member] {
        &Members::of(self).expect("a slice must be decoded with its endpoints").0
    }

    /// The slice's ports.
    ///
    /// # Panics
    /// If the slice was decoded without them.
    pub fn ports(&self) -> &[Port] {
        &Ports::of(self).expect("a slice must be decoded with its ports").0
    }

    /// The slice's address type.
    ///
    /// # Panics
    /// If the slice was decoded without it.
    pub fn address_type(&self) -> AddressType {
        *AddressType::of(self).expect("a slice must be decoded with its address type")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// An endpoint of pod `a`, changed by `patch`.
    fn member(patch: &Value) -> Member {
        let mut endpoint = json!({
            "addresses": ["10.0.0.1"], "nodeName": "n1", "zone": "z1",
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "ns", "name": "a", "uid": "1"},
        });
        for (key, value) in patch.as_object().unwrap() {
            endpoint[key] = value.clone();
        }
        Member::of(&Endpoint::from_json(&endpoint).unwrap())
    }

    #[test]
    fn an_endpoint_is_the_same_while_address_hostname_and_target_stay() {
        let target = |name: &str, uid: &str, version: &str| json!({"targetRef": {"kind": "Pod", "namespace": "ns", "name": name, "uid": uid, "resourceVersion": version}});
        let plain = member(&json!({}));
        for (patch, same_identity, same_content) in [
            (json!({}), true, true),
            (json!({"hints": {"forZones": [{"name": "z1"}]}}), true, true),
            (target("a", "1", "7"), true, true),
            (json!({"hostname": ""}), true, true),
            (target("a", "2", ""), true, false),
            (json!({"nodeName": "n2"}), true, false),
            (json!({"nodeName": null}), true, false),
            (json!({"zone": null}), true, false),
            (json!({"conditions": {"ready": false, "serving": true, "terminating": false}}), true, false),
            (json!({"conditions": {"ready": true}}), true, false),
            (json!({"hostname": "h"}), false, true),
            (json!({"addresses": ["10.0.0.2"]}), false, true),
            (target("b", "1", ""), false, false),
        ] {
            let other = member(&patch);
            let same = (other.identity == plain.identity, other.content == plain.content);
            assert_eq!(same, (same_identity, same_content), "{patch}");
        }
        let pair = |a: &str, b: &str| member(&json!({"addresses": [a, b]})).identity;
        assert_eq!(pair("10.0.0.1", "10.0.0.2"), pair("10.0.0.2", "10.0.0.1"));
    }

    #[test]
    fn a_member_without_hints_takes_24_bytes() {
        assert_eq!(size_of::<Member>(), 24);
    }
}
