//! The named ports of a pod's containers.

use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, projection};

projection! {
    /// A named port of a container. Ports without a name are not cached: no service can refer to them.
    #[derive(Eq, Hash)]
    pub struct NamedPort {
        /// The port's name, unique within the pod for each protocol.
        pub name: Interned = 1 "name",
        /// The port's number.
        pub port: i32 = 3 "containerPort",
        /// `TCP`, `UDP` or `SCTP`.
        pub protocol: Interned = 4 "protocol",
    }

    /// A container or an init container.
    struct Container {
        pub ports: Vec<NamedPort> = 6 "ports",
        pub restart_policy: Interned = 24 "restartPolicy",
    }
}

/// The named ports of a list of containers, in the order of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NamedPorts(Vec<NamedPort>);

impl NamedPorts {
    /// The ports, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = &NamedPort> {
        self.0.iter()
    }

    fn add(&mut self, container: Container) {
        self.0.extend(container.ports.into_iter().filter(|port| !port.name.is_empty()));
    }
}

impl FieldValue for NamedPorts {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut container = Container::default();
        container.merge(field)?;
        self.add(container);
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut ports = Self::default();
        Vec::<Container>::from_json(deserializer)?.into_iter().for_each(|container| ports.add(container));
        Ok(ports)
    }
}

/// The named ports of sidecars: init containers with the restart policy `Always`, which run beside the other
/// containers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SidecarPorts(NamedPorts);

impl SidecarPorts {
    /// The ports, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = &NamedPort> {
        self.0.iter()
    }

    fn add(&mut self, container: Container) {
        if container.restart_policy == "Always" {
            self.0.add(container);
        }
    }
}

impl FieldValue for SidecarPorts {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut container = Container::default();
        container.merge(field)?;
        self.add(container);
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut ports = Self::default();
        Vec::<Container>::from_json(deserializer)?.into_iter().for_each(|container| ports.add(container));
        Ok(ports)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_api::schema;
    use steersman_informer::wire::{Encoding, Group, Object};

    use super::super::pod::{Offer, Pod};
    use super::super::shared::Shared;
    use super::*;

    fn offers(containers: &Value, init: &Value) -> [Shared<Offer>; 2] {
        let spec = json!({"containers": containers, "initContainers": init});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec});
        let protobuf = schema::to_protobuf(schema::table().kind("", "v1", "Pod").unwrap(), &pod).unwrap();
        [(protobuf.into(), Encoding::Protobuf), (pod.to_string().into(), Encoding::Json)].map(
            |(body, encoding)| {
                let pod = Pod::decode(&body, encoding, Shared::<Offer>::BIT).unwrap();
                Shared::<Offer>::of(&pod).unwrap().clone()
            },
        )
    }

    #[test]
    fn pods_that_offer_the_same_share_it_and_unnamed_ports_and_those_of_setup_are_left_out() {
        let port =
            |name: &str, number: i32| json!({"name": name, "containerPort": number, "protocol": "TCP"});
        let containers = json!([{"name": "a", "ports": [port("http", 80), port("", 81)]}, {"name": "b", "ports": [port("dns", 53)]}]);
        let init = json!([
            {"name": "setup", "ports": [port("setup", 1)]},
            {"name": "proxy", "restartPolicy": "Always", "ports": [port("proxy", 2)]},
        ]);
        let [protobuf, json] = offers(&containers, &init);
        let numbers =
            |ports: &mut dyn Iterator<Item = &NamedPort>| ports.map(|port| port.port).collect::<Vec<_>>();
        assert_eq!(numbers(&mut protobuf.ports.iter()), [80, 53]);
        assert_eq!(numbers(&mut protobuf.sidecar_ports.iter()), [2]);
        assert_eq!(protobuf.id(), json.id());
        assert_ne!(offers(&containers, &json!([]))[0].id(), json.id());
        assert_eq!(offers(&json!([{"name": "a"}]), &json!([]))[0], Shared::default());
    }

    #[test]
    fn what_is_large_is_not_kept_for_others() {
        let ports: Vec<_> =
            (1..1000).map(|number| json!({"name": format!("p{number}"), "containerPort": number})).collect();
        let [protobuf, json] = offers(&json!([{"name": "a", "ports": ports}]), &json!([]));
        assert_ne!(protobuf.id(), json.id());
        assert_eq!(protobuf, json);
    }
}
