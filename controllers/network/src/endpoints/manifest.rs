//! Endpoints objects in the form in which the controller writes them.

use steersman_api::ObjectKey;
use steersman_api::wire::{self, Writer};
use steersman_informer::Object;
use steersman_kinds::endpoints::{Address, Endpoints, Port, Subset};

pub use crate::metadata::Metadata;
use crate::metadata::write_target;

/// A complete Endpoints object for a create or an update.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The metadata that a client can set.
    pub metadata: Metadata,
    /// The addresses and ports.
    pub subsets: Vec<Subset>,
}

impl Manifest {
    /// The manifest of a new object, without subsets.
    pub fn new(key: &ObjectKey) -> Self {
        let metadata =
            Metadata { name: key.name.clone(), namespace: key.namespace.clone(), ..Metadata::default() };
        Self { metadata, subsets: Vec::new() }
    }

    /// The manifest of an update to `current`: with the metadata of `current`, but without subsets.
    pub fn replacing(current: &Endpoints) -> Self {
        let metadata = Metadata::replacing(current.meta(), current.annotations());
        Self { metadata, subsets: Vec::new() }
    }

    /// Encodes the object as protobuf in Kubernetes's envelope. For a large object, this costs the client and the API
    /// server a fraction of the time that JSON costs.
    pub fn to_protobuf(&self) -> Vec<u8> {
        let mut object = Writer::new();
        object.message(1, |metadata| self.metadata.write(metadata));
        for subset in &self.subsets {
            object.message(2, |message| write_subset(message, subset));
        }
        wire::wrap("v1", "Endpoints", &object.into_bytes())
    }
}

fn write_subset(message: &mut Writer, subset: &Subset) {
    for (number, addresses) in [(1, &subset.addresses), (2, &subset.not_ready_addresses)] {
        for address in addresses {
            message.message(number, |message| write_address(message, address));
        }
    }
    for port in &subset.ports {
        message.message(3, |message| write_port(message, port));
    }
}

fn write_address(message: &mut Writer, address: &Address) {
    let Address { ip, hostname, node_name, target_ref } = address;
    message.text(1, ip);
    if let Some(target) = target_ref {
        message.message(2, |message| write_target(message, target));
    }
    message.text_unless_empty(3, hostname);
    if let Some(node) = node_name {
        message.text(4, node);
    }
}

fn write_port(message: &mut Writer, port: &Port) {
    let Port { name, port, protocol, app_protocol } = port;
    message.text(1, name);
    message.int64(2, i64::from(*port));
    message.text(3, protocol);
    if let Some(app_protocol) = app_protocol {
        message.text(4, app_protocol);
    }
}
