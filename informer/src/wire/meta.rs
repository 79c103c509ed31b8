//! Decoders of `metadata`, and the kind of which nothing else is kept.

use bytes::Bytes;
use steersman_api::meta::Labels;
use steersman_api::{
    ArcStr, GroupVersionResource, Meta, ObjectKey, OwnerReference, ResourceVersion, Time, Uid,
};

use super::object::Representation;
use super::value::map_entry;
use super::{DecodeError, Encoding, Field, FieldValue, Nullable, Object, Reader, WireError};
use crate::intern::{Interned, Interner};

crate::projection! {
    /// An owner as it stands on the wire.
    struct WireOwner {
        /// Repeats over all objects of the owner's kind.
        pub kind: Interned = 1 "kind",
        /// Repeats over the owner's objects, if it has several.
        pub name: Repeated = 3 "name",
        /// The owner's identity.
        pub uid: Uid = 4 "uid",
        /// Repeats as `kind` does.
        pub api_version: Interned = 5 "apiVersion",
        /// Absent is not the same as false, when it is written back.
        pub controller: Option<bool> = 6 "controller",
        /// Likewise.
        pub block_owner_deletion: Option<bool> = 7 "blockOwnerDeletion",
    }
}

/// A text that is shared once it has come twice.
#[derive(Clone, Debug, Default)]
struct Repeated(ArcStr);

impl FieldValue for Repeated {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.0 = Interner::global().share_if_repeated(field.text()?);
        Ok(())
    }
    fn from_json<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: super::Key<'de> = serde::Deserialize::deserialize(deserializer)?;
        Ok(Self(Interner::global().share_if_repeated(&text)))
    }
}

impl From<WireOwner> for OwnerReference {
    fn from(wire: WireOwner) -> Self {
        Self {
            api_version: wire.api_version.as_arc().clone(),
            kind: wire.kind.as_arc().clone(),
            name: wire.name.0,
            uid: wire.uid,
            controller: wire.controller,
            block_owner_deletion: wire.block_owner_deletion,
        }
    }
}

/// Metadata while it is read. Lists grow in vectors, and are packed into [`Meta`] once, at the end.
#[derive(Default)]
pub struct WireMeta {
    /// All of it but the lists.
    meta: Meta,
    labels: Vec<(ArcStr, ArcStr)>,
    owners: Vec<OwnerReference>,
    finalizers: Vec<ArcStr>,
}

impl From<WireMeta> for Meta {
    fn from(wire: WireMeta) -> Self {
        Self {
            labels: wire.labels.into_iter().collect(),
            owners: wire.owners.into(),
            finalizers: wire.finalizers.into(),
            ..wire.meta
        }
    }
}

/// An opaque version, which some aggregated API servers give out, counts as unknown: it can't be compared.
fn version(text: &str) -> ResourceVersion {
    ResourceVersion::parse(text).unwrap_or_default()
}

impl FieldValue for WireMeta {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let intern = Interner::global();
        let mut message = field.message()?;
        let meta = &mut self.meta;
        while let Some(field) = message.field()? {
            match field.number {
                1 => meta.key.name = field.text()?.into(),
                3 => meta.key.namespace = intern.share(field.text()?),
                5 => meta.uid = Uid::from(field.text()?),
                6 => meta.resource_version = version(field.text()?),
                7 => meta.generation = field.int64()?,
                8 => meta.created.merge(field)?,
                9 => meta.deleted.merge(field)?,
                10 => meta.deletion_grace = Some(field.int64()?),
                11 => self.labels.push(map_entry(field)?),
                13 => {
                    let mut owner = WireOwner::default();
                    owner.merge(field)?;
                    self.owners.push(owner.into());
                }
                14 => self.finalizers.push(intern.share(field.text()?)),
                _ => {}
            }
        }
        Ok(())
    }

    fn from_json<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        JsonMeta::from_json(deserializer).map(Self::from)
    }
}

crate::projection! {
    /// The JSON half: the numbers are those that [`WireMeta`] reads by hand, to intern without an intermediate list.
    struct JsonMeta {
        /// See [`Meta`].
        pub name: ArcStr = 1 "name",
        /// See [`Meta`].
        pub namespace: Interned = 3 "namespace",
        /// See [`Meta`].
        pub uid: Uid = 5 "uid",
        /// See [`Meta`].
        pub resource_version: ArcStr = 6 "resourceVersion",
        /// See [`Meta`].
        pub generation: i64 = 7 "generation",
        /// See [`Meta`].
        pub created: Option<Time> = 8 "creationTimestamp",
        /// See [`Meta`].
        pub deleted: Option<Time> = 9 "deletionTimestamp",
        /// See [`Meta`].
        pub deletion_grace: Option<i64> = 10 "deletionGracePeriodSeconds",
        /// See [`Meta`].
        pub labels: Labels = 11 "labels",
        /// See [`Meta`].
        pub owners: Vec<WireOwner> = 13 "ownerReferences",
        /// See [`Meta`].
        pub finalizers: Vec<Interned> = 14 "finalizers",
    }
}

impl From<JsonMeta> for WireMeta {
    fn from(json: JsonMeta) -> Self {
        Self {
            meta: Meta {
                key: ObjectKey { namespace: json.namespace.as_arc().clone(), name: json.name },
                uid: json.uid,
                resource_version: version(&json.resource_version),
                generation: json.generation,
                created: json.created,
                deleted: json.deleted,
                deletion_grace: json.deletion_grace,
                ..Meta::default()
            },
            labels: json.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            owners: json.owners.into_iter().map(OwnerReference::from).collect(),
            finalizers: json.finalizers.iter().map(|finalizer| finalizer.as_arc().clone()).collect(),
        }
    }
}

/// Any object, of which only the metadata is kept: for kinds known only at run time, and for controllers that need no more.
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

/// The metadata of an object of any kind: in protobuf it is always field 1.
///
/// # Errors
/// Bytes that are no object.
pub fn decode(body: &Bytes, encoding: Encoding) -> Result<Meta, DecodeError> {
    let mut wire = WireMeta::default();
    match encoding {
        Encoding::Protobuf => {
            let mut reader = Reader::new(body);
            while let Some(field) = reader.field()? {
                if field.number == 1 {
                    wire.merge(field)?;
                    break;
                }
            }
        }
        Encoding::Json => {
            struct Seed;
            impl<'de> serde::de::Visitor<'de> for Seed {
                type Value = WireMeta;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<WireMeta, A::Error> {
                    let mut meta = WireMeta::default();
                    while let Some(key) = map.next_key::<super::Key<'de>>()? {
                        match &*key {
                            "metadata" => meta = map.next_value_seed(Nullable::default())?,
                            _ => {
                                map.next_value::<serde::de::IgnoredAny>()?;
                            }
                        }
                    }
                    Ok(meta)
                }
            }
            wire =
                serde::Deserializer::deserialize_map(&mut serde_json::Deserializer::from_slice(body), Seed)?;
        }
    }
    Ok(wire.into())
}
