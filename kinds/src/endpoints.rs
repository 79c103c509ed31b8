//! The cached fields of Endpoints, in groups.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::LazyLock;

use steersman_api::meta::LabelMap;
use steersman_api::{ArcStr, Uid};
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, Group, WireError};
use steersman_informer::{kind, projection};

projection! {
    /// The annotations. A controller that replaces the object must write them back.
    pub struct Annotations {
        /// The annotations, by key.
        pub annotations: LabelMap = 12 "annotations",
    }

    /// Addresses that offer the same ports.
    #[derive(Eq)]
    pub struct Subset {
        /// The addresses that are ready.
        pub addresses: Vec<Address> = 1 "addresses",
        /// The addresses that are not ready.
        pub not_ready_addresses: Vec<Address> = 2 "notReadyAddresses",
        /// The ports that each address offers.
        pub ports: Vec<Port> = 3 "ports",
    }

    /// An address of a pod.
    #[derive(Eq, Hash)]
    pub struct Address {
        /// The IP address, of the service's primary family.
        pub ip: ArcStr = 1 "ip",
        /// The pod's name within the service's domain.
        pub hostname: ArcStr = 3 "hostname",
        /// The node that the pod runs on.
        pub node_name: Option<ArcStr> = 4 "nodeName",
        /// A reference to the pod.
        pub target_ref: Option<TargetRef> = 2 "targetRef",
    }

    /// The object at an address. Its `resourceVersion` is not cached, since no comparison uses it.
    #[derive(Eq, Hash)]
    pub struct TargetRef {
        /// `Pod`.
        pub kind: ArcStr = 1 "kind",
        /// The service's namespace.
        pub namespace: ArcStr = 2 "namespace",
        /// The pod's name.
        pub name: ArcStr = 3 "name",
        /// The pod's uid.
        pub uid: Uid = 4 "uid",
        /// Empty for pods.
        pub api_version: ArcStr = 5 "apiVersion",
        /// Empty for pods.
        pub field_path: ArcStr = 7 "fieldPath",
    }

    /// A port that addresses offer.
    #[derive(Eq, Hash)]
    pub struct Port {
        /// The name of the service's port.
        pub name: ArcStr = 1 "name",
        /// The port number that the pod listens on.
        pub port: i32 = 2 "port",
        /// `TCP`, `UDP` or `SCTP`.
        pub protocol: ArcStr = 3 "protocol",
        /// The application protocol of the service's port.
        pub app_protocol: Option<ArcStr> = 4 "appProtocol",
    }
}

/// A hash of the subsets' meaning: which address offers which port, and whether the address is ready.
///
/// The cache has this hash instead of the subsets, which take some 200 bytes for each pod: the controller only compares
/// them with the subsets that it wants. Subsets with the same meaning have the same hash, whatever their order and
/// however addresses and ports are divided among them. Different ones have the same hash with a probability of 2^-128.
/// The hash's keys are random, so hashes can be compared within one process only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content([u64; 2]);

impl Content {
    /// The hash of a list of subsets.
    pub fn of_subsets(subsets: &[Subset]) -> Self {
        let mut content = Self::default();
        subsets.iter().for_each(|subset| content.add(subset));
        content
    }

    fn add(&mut self, subset: &Subset) {
        let ports: Vec<_> = subset.ports.iter().map(hash).collect();
        let ready = subset.addresses.iter().map(|address| (address, true));
        for (address, ready) in ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)))
        {
            let address = hash(address);
            if ports.is_empty() {
                self.add_hash(hash(&(address, ready)));
            }
            for port in &ports {
                self.add_hash(hash(&(address, ready, port)));
            }
        }
    }

    /// Adds a hash to the sum, which does not depend on the order. The hashes are keyed, so an attacker can't construct two
    /// lists with the same sum.
    fn add_hash(&mut self, hash: [u64; 2]) {
        self.0 = std::array::from_fn(|at| self.0[at].wrapping_add(hash[at]));
    }
}

fn hash<T: Hash>(value: &T) -> [u64; 2] {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| std::array::from_fn(|_| RandomState::new()));
    std::array::from_fn(|at| KEYS[at].hash_one(value))
}

impl FieldValue for Content {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut subset = Subset::default();
        subset.merge(field)?;
        self.add(&subset);
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Subset>::from_json(deserializer).map(|subsets| Self::of_subsets(&subsets))
    }
}

/// The subsets themselves, for controllers that read an object from the API server. A cache should hold the [`Content`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subsets(pub Vec<Subset>);

impl FieldValue for Subsets {
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

impl Endpoints {
    /// The object's annotations.
    ///
    /// # Panics
    /// If the object was decoded without them.
    pub fn annotations(&self) -> &LabelMap {
        &Annotations::of(self).expect("Endpoints must be decoded with their annotations").annotations
    }

    /// The hash of the object's subsets.
    ///
    /// # Panics
    /// If the object was decoded without it.
    pub fn content(&self) -> Content {
        *Content::of(self).expect("Endpoints must be decoded with their content")
    }

    /// The object's subsets.
    ///
    /// # Panics
    /// If the object was decoded without them.
    pub fn subsets(&self) -> &[Subset] {
        &Subsets::of(self).expect("Endpoints must be decoded with their subsets").0
    }
}

kind! {
    /// The addresses that a service leads to.
    pub struct Endpoints("", "v1", "endpoints") {
        annotations: Annotations = 1 "metadata",
        content: Content = 2 "subsets",
        subsets: Subsets = 2 "subsets",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn content(subsets: &Value) -> Content {
        Content::from_json(subsets).unwrap()
    }

    #[test]
    fn content_does_not_depend_on_order_or_division_and_ignores_the_targets_version() {
        let port = |name: &str| json!({"name": name, "port": 80});
        let one = json!([{
            "addresses": [{"ip": "1", "targetRef": {"name": "a", "resourceVersion": "1"}}, {"ip": "2"}],
            "ports": [port("p"), port("q")],
        }]);
        let other = json!([
            {"addresses": [{"ip": "2"}], "ports": [port("q"), port("p")]},
            {"addresses": [{"ip": "1", "targetRef": {"name": "a", "resourceVersion": "2"}}], "ports": [port("p")]},
            {"addresses": [{"ip": "1", "targetRef": {"name": "a"}}], "ports": [port("q")]},
        ]);
        assert_eq!(content(&one), content(&other));
    }

    #[test]
    fn content_tells_apart_whatever_differs() {
        let said: Vec<_> = [
            json!([]),
            json!([{"addresses": [{"ip": "1"}]}]),
            json!([{"notReadyAddresses": [{"ip": "1"}]}]),
            json!([{"addresses": [{"ip": "1", "nodeName": ""}]}]),
            json!([{"addresses": [{"ip": "1"}], "ports": [{"port": 80}]}]),
            json!([{"addresses": [{"ip": "1"}], "ports": [{"port": 80, "appProtocol": ""}]}]),
            json!([{"addresses": [{"ip": "1"}, {"ip": "2"}]}]),
            json!([{"addresses": [{"ip": "1"}], "notReadyAddresses": [{"ip": "2"}]}]),
            json!([{"addresses": [{"ip": "2"}], "notReadyAddresses": [{"ip": "1"}]}]),
        ]
        .iter()
        .map(content)
        .collect();
        for (at, one) in said.iter().enumerate() {
            assert!(!said[..at].contains(one), "{at}");
        }
    }
}
