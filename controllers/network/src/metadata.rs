//! The metadata of objects in the form in which the controllers write them.

use std::collections::BTreeMap;

use steersman_api::meta::LabelMap;
use steersman_api::wire::Writer;
use steersman_api::{ArcStr, Meta, OwnerReference, ResourceVersion, SharedList, Uid};
use steersman_kinds::endpoints::TargetRef;

/// The metadata that a client can set. An update must send all of it, because the API server drops what is missing. Only
/// `managedFields` it keeps by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// The object's name. Empty in a create with `generate_name`.
    pub name: ArcStr,
    /// The beginning of the name that the API server generates; empty if it generates none.
    pub generate_name: ArcStr,
    /// The object's namespace.
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
    pub owner_references: SharedList<OwnerReference>,
    /// The finalizers, in the object's order.
    pub finalizers: SharedList<ArcStr>,
}

impl Metadata {
    /// The metadata of an update to an object.
    pub(crate) fn replacing(meta: &Meta, annotations: &LabelMap) -> Self {
        let owned = |(key, value): (&ArcStr, &ArcStr)| (key.clone(), value.clone());
        Self {
            name: meta.key.name.clone(),
            generate_name: ArcStr::new(),
            namespace: meta.key.namespace.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version,
            labels: meta.labels.iter().map(owned).collect(),
            annotations: annotations.iter().map(owned).collect(),
            owner_references: meta.owners.clone(),
            finalizers: meta.finalizers.clone(),
        }
    }

    /// Encodes the metadata as protobuf.
    pub(crate) fn write(&self, message: &mut Writer) {
        message.text_unless_empty(1, &self.name);
        message.text_unless_empty(2, &self.generate_name);
        message.text(3, &self.namespace);
        message.text_unless_empty(5, &self.uid.to_string());
        if self.resource_version != ResourceVersion::ANY {
            message.text(6, &self.resource_version.to_string());
        }
        self.labels.iter().for_each(|(key, value)| message.entry(11, key, value));
        self.annotations.iter().for_each(|(key, value)| message.entry(12, key, value));
        for owner in &self.owner_references {
            message.message(13, |reference| owner.write(reference));
        }
        self.finalizers.iter().for_each(|finalizer| message.text(14, finalizer));
    }
}

/// Encodes a reference to a pod as protobuf.
pub(crate) fn write_target(message: &mut Writer, target: &TargetRef) {
    let TargetRef { kind, namespace, name, uid, api_version, field_path } = target;
    message.text(1, kind);
    message.text(2, namespace);
    message.text(3, name);
    message.text(4, &uid.to_string());
    message.text_unless_empty(5, api_version);
    message.text_unless_empty(7, field_path);
}
