//! Decoders of `metadata`, and the kind of which only the metadata is kept.

use bytes::Bytes;
use serde::de::Deserializer;
use steersman_api::meta::LabelMap;
use steersman_api::{
    ArcStr, Deletion, GroupVersionResource, Meta, OwnerReference, ResourceVersion, Time, Uid,
};

use super::object::Representation;
use super::value::map_entry;
use super::{
    DecodeError, Encoding, Field, FieldValue, Message, Object, Reader, WireError, ignore, message_from_json,
    nullable,
};
use crate::intern::{Interned, Interner, Repeated};
use crate::recent_lists::{share_labels, share_owners};

crate::projection! {
    /// An owner reference on the wire.
    struct WireOwner {
        /// Repeats over all objects whose owners have this kind.
        pub kind: Interned = 1 "kind",
        /// Repeats over the owner's objects, if the owner has several.
        pub name: Repeated = 3 "name",
        /// The owner's identity.
        pub uid: Uid = 4 "uid",
        /// Repeats as `kind` does.
        pub api_version: Interned = 5 "apiVersion",
        /// Absent differs from false when the reference is written back.
        pub controller: Option<bool> = 6 "controller",
        /// Absent differs from false, as above.
        pub block_owner_deletion: Option<bool> = 7 "blockOwnerDeletion",
    }
}

impl From<WireOwner> for OwnerReference {
    fn from(wire: WireOwner) -> Self {
        Self {
            api_version: wire.api_version.as_arc().clone(),
            kind: wire.kind.as_arc().clone(),
            name: wire.name.as_arc().clone(),
            uid: wire.uid,
            controller: wire.controller,
            block_owner_deletion: wire.block_owner_deletion,
        }
    }
}

/// Metadata while it is being decoded. Lists grow in vectors, and are packed into [`Meta`] once, at the end, as the deletion is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WireMeta {
    /// The metadata without the lists and the deletion.
    meta: Meta,
    labels: Vec<(ArcStr, ArcStr)>,
    owners: Vec<OwnerReference>,
    finalizers: Vec<ArcStr>,
    deleted: Option<Time>,
    deletion_grace: Option<i64>,
}

impl From<WireMeta> for Meta {
    /// A grace period without a deletion timestamp means nothing.
    fn from(wire: WireMeta) -> Self {
        let deletion = |at| Box::new(Deletion { at, grace: wire.deletion_grace });
        Self {
            labels: share_labels(wire.labels),
            owners: share_owners(wire.owners),
            finalizers: wire.finalizers.into(),
            deletion: wire.deleted.map(deletion),
            ..wire.meta
        }
    }
}

/// Parses a version. A version that is not a number, as of some aggregated API servers, can't be compared and counts as unknown.
fn version(text: &str) -> ResourceVersion {
    ResourceVersion::parse(text).unwrap_or_default()
}

impl Message for WireMeta {
    fn merge_field(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let intern = Interner::global();
        let meta = &mut self.meta;
        match field.number {
            1 => meta.key.name = field.text()?.into(),
            3 => meta.key.namespace = intern.share(field.text()?),
            5 => meta.uid = Uid::from(field.text()?),
            6 => meta.resource_version = version(field.text()?),
            7 => meta.generation = field.int64()?,
            8 => meta.created.merge(field)?,
            9 => self.deleted.merge(field)?,
            10 => self.deletion_grace = Some(field.int64()?),
            11 => self.labels.push(map_entry(field)?),
            13 => {
                let mut owner = WireOwner::default();
                owner.merge(field)?;
                self.owners.push(owner.into());
            }
            14 => self.finalizers.push(intern.share(field.text()?)),
            _ => {}
        }
        Ok(())
    }

    fn has_member(&self, name: &str) -> bool {
        MEMBERS.contains(&name)
    }

    fn merge_member<'de, D: Deserializer<'de>>(&mut self, name: &str, value: D) -> Result<(), D::Error> {
        let meta = &mut self.meta;
        match name {
            "name" => meta.key.name = nullable(value)?,
            "namespace" => meta.key.namespace = nullable::<Interned, _>(value)?.as_arc().clone(),
            "uid" => meta.uid = nullable(value)?,
            "resourceVersion" => meta.resource_version = version(&nullable::<ArcStr, _>(value)?),
            "generation" => meta.generation = nullable(value)?,
            "creationTimestamp" => meta.created = nullable(value)?,
            "deletionTimestamp" => self.deleted = nullable(value)?,
            "deletionGracePeriodSeconds" => self.deletion_grace = nullable(value)?,
            "labels" => {
                let labels: LabelMap = nullable(value)?;
                self.labels = labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            }
            "ownerReferences" => {
                let owners: Vec<WireOwner> = nullable(value)?;
                self.owners = owners.into_iter().map(OwnerReference::from).collect();
            }
            "finalizers" => {
                let finalizers: Vec<Interned> = nullable(value)?;
                self.finalizers = finalizers.iter().map(|finalizer| finalizer.as_arc().clone()).collect();
            }
            _ => ignore(value)?,
        }
        Ok(())
    }
}

/// The JSON members that [`WireMeta`] reads.
const MEMBERS: [&str; 11] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "ownerReferences",
    "finalizers",
];

impl FieldValue for WireMeta {
    crate::decoded_as_message!(1, 3, 5, 6, 7, 8, 9, 10, 11, 13, 14);
}

crate::projection! {
    /// An object of which only the metadata is read.
    struct Envelope {
        /// The metadata of every kind is field 1.
        pub metadata: WireMeta = 1 "metadata",
    }
}

/// An object of any kind, of which only the metadata is kept. For kinds known only at run time, and for controllers that need
/// no other fields.
#[derive(Clone, Debug)]
pub struct MetaOnly(pub Meta);

impl Object for MetaOnly {
    const REPRESENTATION: Representation = Representation::Metadata;

    fn resource() -> Option<GroupVersionResource> {
        None
    }
    fn meta(&self) -> &Meta {
        &self.0
    }
    fn decode(body: &Bytes, encoding: Encoding, _groups: u64) -> Result<Self, DecodeError> {
        decode(body, encoding).map(Self)
    }
    fn unreadable(meta: Meta) -> Self {
        Self(meta)
    }
    fn with_meta(&self, meta: Meta) -> Self {
        Self(meta)
    }
}

/// The metadata of an object of any kind. In protobuf it is always field 1; what follows it is not read, so that it may be
/// damaged.
///
/// # Errors
/// The bytes are not an object.
pub fn decode(body: &Bytes, encoding: Encoding) -> Result<Meta, DecodeError> {
    let mut envelope = Envelope::default();
    match encoding {
        Encoding::Protobuf => {
            let mut reader = Reader::new(body);
            while let Some(field) = reader.field()? {
                if field.number == 1 {
                    envelope.metadata.merge(field)?;
                    break;
                }
            }
        }
        Encoding::Json => {
            envelope = message_from_json(&mut serde_json::Deserializer::from_slice(body))?;
        }
    }
    Ok(envelope.metadata.into())
}
