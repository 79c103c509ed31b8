//! One state of one object.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value};
use steersman_api::ObjectKey;

use crate::codec;
use crate::registry::Resource;

/// One state of one object, never changed once made.
///
/// Its encodings are made when first asked for, and from then on shared by all who read or watch it.
pub(crate) struct Object {
    /// What it is served as.
    pub(crate) resource: Arc<Resource>,
    /// Namespace and name.
    pub(crate) key: ObjectKey,
    /// The version of this state.
    pub(crate) version: u64,
    /// The whole object in its JSON form, `apiVersion`, `kind` and `metadata.resourceVersion` included.
    pub(crate) value: Value,
    encoded: Encoded,
}

#[derive(Default)]
struct Encoded {
    json: OnceLock<Bytes>,
    protobuf: OnceLock<Result<Bytes, codec::Error>>,
    metadata_json: OnceLock<Bytes>,
    metadata_protobuf: OnceLock<Result<Bytes, codec::Error>>,
    /// In another version of its group; see [`Object::served_as`].
    other: OnceLock<Arc<Object>>,
}

/// How much of an object is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// All of it.
    Whole,
    /// A `PartialObjectMetadata`.
    Metadata,
}

impl Object {
    /// Stamps `value` with its version and its kind.
    pub(super) fn new(resource: Arc<Resource>, key: ObjectKey, version: u64, mut value: Value) -> Self {
        value["apiVersion"] = resource.api_version.as_str().into();
        value["kind"] = resource.kind.as_str().into();
        value["metadata"]["resourceVersion"] = version.to_string().into();
        Self { resource, key, version, value, encoded: Encoded::default() }
    }

    /// A state that is shown to a client but not kept: its version is whatever `value` says.
    pub(crate) fn unstored(resource: Arc<Resource>, key: ObjectKey, mut value: Value) -> Self {
        value["apiVersion"] = resource.api_version.as_str().into();
        value["kind"] = resource.kind.as_str().into();
        Self { resource, key, version: 0, value, encoded: Encoded::default() }
    }

    /// The same state under another version.
    pub(super) fn at_version(&self, version: u64) -> Self {
        Self::new(Arc::clone(&self.resource), self.key.clone(), version, self.value.clone())
    }

    /// The object as another resource of the same table shows it (another version of the API group).
    pub(crate) fn served_as(self: &Arc<Self>, resource: &Arc<Resource>) -> Arc<Self> {
        if Arc::ptr_eq(&self.resource, resource) {
            return Arc::clone(self);
        }
        let convert = || {
            let value = resource.convert_from(&self.resource, &self.value);
            let mut other = Self::unstored(Arc::clone(resource), self.key.clone(), value);
            other.version = self.version;
            Arc::new(other)
        };
        let other = self.encoded.other.get_or_init(convert);
        // One other form is remembered; a third version of a group is converted each time.
        if Arc::ptr_eq(&other.resource, resource) { Arc::clone(other) } else { convert() }
    }

    /// `metadata`.
    pub(crate) fn metadata(&self) -> &Map<String, Value> {
        static EMPTY: OnceLock<Map<String, Value>> = OnceLock::new();
        self.value["metadata"].as_object().unwrap_or_else(|| EMPTY.get_or_init(Map::new))
    }

    /// The value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.metadata().get("labels")?.get(key)?.as_str()
    }

    /// `metadata.uid`.
    pub(crate) fn uid(&self) -> &str {
        self.metadata().get("uid").and_then(Value::as_str).unwrap_or_default()
    }

    /// As a JSON object without `apiVersion` and `kind`, which lists leave out.
    pub(crate) fn json(&self, view: View) -> &Bytes {
        match view {
            View::Whole => self.encoded.json.get_or_init(|| codec::json_without_type(&self.value)),
            View::Metadata => {
                self.encoded.metadata_json.get_or_init(|| codec::metadata_json(self.metadata()))
            }
        }
    }

    /// As a bare protobuf message.
    ///
    /// # Errors
    /// The object does not fit its kind's schema, or its kind has none.
    pub(crate) fn protobuf(&self, view: View) -> Result<&Bytes, codec::Error> {
        let encoded = match view {
            View::Whole => {
                self.encoded.protobuf.get_or_init(|| codec::to_protobuf(&self.resource, &self.value))
            }
            View::Metadata => {
                self.encoded.metadata_protobuf.get_or_init(|| codec::metadata_to_protobuf(self.metadata()))
            }
        };
        encoded.as_ref().map_err(Clone::clone)
    }
}
