//! The named ports of a pod's containers.

use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, projection};

use super::shared::pooled;

pooled!(NamedPorts, SidecarPorts);

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
pub struct NamedPorts(Box<[NamedPort]>);

impl NamedPorts {
    /// The ports, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = &NamedPort> {
        self.0.iter()
    }

    fn add(&mut self, container: Container) {
        let named = container.ports.into_iter().filter(|port| !port.name.is_empty());
        let mut ports = std::mem::take(&mut self.0).into_vec();
        ports.extend(named);
        self.0 = ports.into();
    }
}

impl FieldValue for NamedPorts {
    fn heap_bytes(&self) -> usize {
        size_of_val(&*self.0)
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
