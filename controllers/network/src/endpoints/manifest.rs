//! Endpoints as they are written.

use std::collections::BTreeMap;

use steersman_api::wire::{self, Writer};
use steersman_api::{ArcStr, ObjectKey, OwnerReference, ResourceVersion, Uid};
use steersman_informer::Object;

use steersman_kinds::endpoints::{Address, Endpoints, Port, Subset, TargetRef};

/// The whole of an Endpoints object, as the API server is to store it.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Its metadata, as far as a writer has a say in it.
    pub metadata: Metadata,
    /// What it says.
    pub subsets: Vec<Subset>,
}

/// Of an update: all that the API server would drop if it were not sent back. It keeps `managedFields` by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// That of the service.
    pub name: ArcStr,
    /// That of the service.
    pub namespace: ArcStr,
    /// Which object of that name is meant; empty: there should be none.
    pub uid: Uid,
    /// Which state of it is replaced; zero: none.
    pub resource_version: ResourceVersion,
    /// By key.
    pub labels: BTreeMap<ArcStr, ArcStr>,
    /// By key.
    pub annotations: BTreeMap<ArcStr, ArcStr>,
    /// In their order.
    pub owner_references: Box<[OwnerReference]>,
    /// In their order.
    pub finalizers: Box<[ArcStr]>,
}

impl Manifest {
    /// Of an object that is not there yet.
    pub fn new(key: &ObjectKey) -> Self {
        let metadata =
            Metadata { name: key.name.clone(), namespace: key.namespace.clone(), ..Metadata::default() };
        Self { metadata, subsets: Vec::new() }
    }

    /// To replace that state of an object: with its metadata, without what it says.
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

    /// As protobuf, in its envelope: of a large object that is a fraction of the work for both sides.
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
