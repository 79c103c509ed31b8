//! Endpoints objects in the form in which the controller writes them.

use std::collections::BTreeMap;

use steersman_api::wire::{self, Writer};
use steersman_api::{ArcStr, ObjectKey, OwnerReference, ResourceVersion, Uid};
use steersman_informer::Object;

use steersman_kinds::endpoints::{Address, Endpoints, Port, Subset, TargetRef};

/// A complete Endpoints object for a create or an update.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The metadata that a client can set.
    pub metadata: Metadata,
    /// The addresses and ports.
    pub subsets: Vec<Subset>,
}

/// The metadata that a client can set. An update must send all of it, because the API server drops what is missing. Only
/// `managedFields` it keeps by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// The name of the service and of the object.
    pub name: ArcStr,
    /// The namespace of the service and of the object.
    pub namespace: ArcStr,
    /// The uid of the object to replace; empty in a create.
    pub uid: Uid,
    /// The version of the object to replace; zero in a create.
    pub resource_version: ResourceVersion,
    /// The labels, by key.
    pub labels: BTreeMap<ArcStr, ArcStr>,
    /// The annotations, by key.
    pub annotations: BTreeMap<ArcStr, ArcStr>,
    /// The owner references, in the object's order.
    pub owner_references: Box<[OwnerReference]>,
    /// The finalizers, in the object's order.
    pub finalizers: Box<[ArcStr]>,
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
        let meta = current.meta();
        let mut manifest = Self::new(&meta.key);
        manifest.metadata = Metadata {
            uid: meta.uid.clone(),
            resource_version: meta.resource_version,
            labels: meta.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            annotations: current
                .annotations()
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            owner_references: meta.owners.clone(),
            finalizers: meta.finalizers.clone(),
            ..manifest.metadata
        };
        manifest
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

impl Metadata {
    fn write(&self, message: &mut Writer) {
        message.text(1, &self.name);
        message.text(3, &self.namespace);
        message.text(5, &self.uid.to_string());
        if self.resource_version != ResourceVersion::ANY {
            message.text(6, &self.resource_version.to_string());
        }
        self.labels.iter().for_each(|(key, value)| message.entry(11, key, value));
        self.annotations.iter().for_each(|(key, value)| message.entry(12, key, value));
        for owner in &self.owner_references {
            message.message(13, |message| write_owner(message, owner));
        }
        self.finalizers.iter().for_each(|finalizer| message.text(14, finalizer));
    }
}

fn write_owner(message: &mut Writer, owner: &OwnerReference) {
    message.text(1, &owner.kind);
    message.text(3, &owner.name);
    message.text(4, &owner.uid.to_string());
    message.text(5, &owner.api_version);
    for (number, set) in [(6, owner.controller), (7, owner.block_owner_deletion)] {
        if let Some(value) = set {
            message.bool(number, value);
        }
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

fn write_target(message: &mut Writer, target: &TargetRef) {
    let TargetRef { kind, namespace, name, uid, api_version, field_path } = target;
    message.text(1, kind);
    message.text(2, namespace);
    message.text(3, name);
    message.text(4, &uid.to_string());
    message.text_unless_empty(5, api_version);
    message.text_unless_empty(7, field_path);
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
