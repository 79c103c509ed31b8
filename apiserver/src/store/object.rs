//! One state of one object.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};
use steersman_api::ObjectKey;

use super::Warm;
use super::body::Body;
use crate::codec::{self, Format};
use crate::managed_fields;
use crate::registry::Resource;

/// One state of one object, never changed once made.
///
/// It is kept as the bytes that clients get in JSON. All else is made from these when it is asked for, and is at hand only
/// for a while ([`Warm`]), or where somebody [keeps](Self::kept) it.
pub(crate) struct Object {
    /// What it is served as.
    pub(crate) resource: Arc<Resource>,
    /// Namespace and name.
    pub(crate) key: ObjectKey,
    /// The version of this state.
    pub(crate) version: u64,
    body: Body,
    /// The values of the fields that objects of the kind can be selected by, in the kind's order.
    fields: OnceLock<Box<[Box<str>]>>,
    kept: OnceLock<Arc<Value>>,
    /// While it is warm.
    value: Mutex<Option<Arc<Value>>>,
    /// While it is warm.
    encoded: Mutex<Vec<(Form, Bytes)>>,
}

/// How much of an object is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// All of it.
    Whole,
    /// A `PartialObjectMetadata`.
    Metadata,
}

/// What an object's bytes in an event are made for.
pub(crate) struct Form {
    /// The type of the event.
    pub(crate) event: &'static str,
    /// The encoding.
    pub(crate) format: Format,
    /// How much is shown.
    pub(crate) view: View,
    /// Which of the resources of the object's table it is shown as.
    pub(crate) resource: Arc<Resource>,
}

impl PartialEq for Form {
    fn eq(&self, other: &Self) -> bool {
        let Self { event, format, view, resource } = other;
        (self.event, self.format, self.view) == (*event, *format, *view)
            && Arc::ptr_eq(&self.resource, resource)
    }
}

/// A state that is to be stored, written but for its version: that is known only when its turn has come.
pub(super) struct Draft {
    body: Body,
    value: Value,
}

impl Draft {
    /// Stamps `value` with its kind.
    pub(super) fn new(resource: &Resource, mut value: Value) -> Self {
        stamp(resource, &mut value);
        compact(&mut value);
        value["metadata"]["resourceVersion"] = "".into();
        Self { body: written(&value), value }
    }
}

fn stamp(resource: &Resource, value: &mut Value) {
    value["apiVersion"] = resource.api_version.as_str().into();
    value["kind"] = resource.kind.as_str().into();
}

/// Brings the managers of fields into the form in which they are read.
fn compact(value: &mut Value) {
    if let Some(managed) = value["metadata"].get_mut("managedFields") {
        managed_fields::compact(managed);
    }
}

fn written(value: &Value) -> Body {
    let empty = Map::new();
    Body::write(value.as_object().unwrap_or(&empty))
}

fn read(resource: &Resource, body: &Body) -> Value {
    let members = codec::read_members(body.json());
    let mut value = Value::Object(members.expect("what is stored must be readable: it was seen to"));
    stamp(resource, &mut value);
    value
}

impl Object {
    fn of(resource: Arc<Resource>, key: ObjectKey, version: u64, body: Body, value: Option<Value>) -> Self {
        debug_assert!(
            value.as_ref().is_none_or(|value| *value == read(&resource, &body)),
            "what is written must read back as it was"
        );
        let (value, encoded) = (Mutex::new(value.map(Arc::new)), Mutex::default());
        let (fields, kept) = (OnceLock::new(), OnceLock::new());
        Self { resource, key, version, body, fields, kept, value, encoded }
    }

    /// What a draft becomes under its version.
    pub(super) fn new(resource: Arc<Resource>, key: ObjectKey, version: u64, draft: Draft) -> Self {
        let Draft { body, mut value } = draft;
        value["metadata"]["resourceVersion"] = version.to_string().into();
        Self::of(resource, key, version, body.at_version(version), Some(value))
    }

    /// One that was stored as these [bytes](Self::json).
    ///
    /// # Errors
    /// They are no object, or have no version.
    pub(super) fn restored(resource: Arc<Resource>, key: ObjectKey, json: Bytes) -> Result<Self, String> {
        codec::check(&json).map_err(|error| error.to_string())?;
        let body = Body::read(json).map_err(|error| error.to_string())?;
        let version = body.version().and_then(|version| version.parse().ok()).ok_or("it has no version")?;
        Ok(Self::of(resource, key, version, body, None))
    }

    /// A state that is shown to a client but not kept: its version is whatever `value` says.
    pub(crate) fn unstored(resource: Arc<Resource>, key: ObjectKey, mut value: Value) -> Self {
        stamp(&resource, &mut value);
        compact(&mut value);
        Self::of(resource, key, 0, written(&value), Some(value))
    }

    /// The same state under another version.
    pub(super) fn at_version(&self, version: u64) -> Self {
        let body = self.body.at_version(version);
        Self::of(Arc::clone(&self.resource), self.key.clone(), version, body, None)
    }

    /// The object as another resource of the same table shows it (another version of the API group).
    pub(crate) fn served_as(self: &Arc<Self>, resource: &Arc<Resource>) -> Arc<Self> {
        if Arc::ptr_eq(&self.resource, resource) {
            return Arc::clone(self);
        }
        let (shown, key) = (Arc::clone(resource), self.key.clone());
        if resource.schema.is_none() {
            // The versions of a custom resource differ in nothing that the bytes say.
            return Arc::new(Self::of(shown, key, self.version, self.body.clone(), None));
        }
        let value = resource.convert_from(&self.resource, &self.parsed());
        let mut other = Self::unstored(shown, key, value);
        other.version = self.version;
        Arc::new(other)
    }

    /// The whole object in its JSON form, `apiVersion`, `kind` and `metadata.resourceVersion` included. Unless it is
    /// [warm](Warm), all of it is read: this takes as long as a small request.
    pub(crate) fn parsed(&self) -> Arc<Value> {
        if let Some(kept) = self.kept.get() {
            return Arc::clone(kept);
        }
        if let Some(value) = &*self.value.lock() {
            return Arc::clone(value);
        }
        Arc::new(read(&self.resource, &self.body))
    }

    /// As [`parsed`](Self::parsed), once and for all: for objects of kinds that are few, and asked for by requests that are
    /// about others.
    pub(crate) fn kept(&self) -> &Value {
        self.kept.get_or_init(|| self.parsed())
    }

    /// What `T` says of the object: only that is kept of what is read. `None` if it is something else.
    pub(crate) fn read<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_slice(self.body.json()).ok()
    }

    /// `metadata` alone.
    pub(crate) fn metadata(&self) -> Map<String, Value> {
        let metadata = codec::read_metadata(&self.body.metadata());
        metadata.expect("what is stored must be readable: it was seen to")
    }

    /// The value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.body.label(key)
    }

    /// `metadata.uid`.
    pub(crate) fn uid(&self) -> &str {
        self.body.uid().unwrap_or_default()
    }

    /// `metadata.resourceVersion`, which a state that is not stored may lack.
    pub(crate) fn version_told(&self) -> Option<&str> {
        self.body.version()
    }

    /// `metadata.deletionTimestamp`, if the object is going.
    pub(crate) fn deletion_timestamp(&self) -> Option<&str> {
        self.body.deletion_timestamp()
    }

    /// The value of a field that objects of the kind can be selected by.
    pub(crate) fn field(&self, field: &str) -> Cow<'_, str> {
        let strategy = self.resource.strategy;
        let fields = strategy.selectable_fields();
        let Some(at) = fields.iter().position(|known| *known == field) else {
            return strategy.field(&self.parsed(), field).into();
        };
        let all = self.fields.get_or_init(|| {
            let value = self.parsed();
            fields.iter().map(|field| strategy.field(&value, field).into()).collect()
        });
        Cow::Borrowed(&all[at])
    }

    /// How many bytes it is kept in.
    pub(super) fn weight(&self) -> usize {
        self.body.json().len()
    }

    /// How many bytes it takes of the space that objects may take: the key, and what is stored but for the version, so that
    /// no write needs more space only because there have been many.
    pub(super) fn space(&self) -> u64 {
        let version = self.body.version().map_or(0, str::len);
        (self.key.namespace.len() + self.key.name.len() + self.weight() - version) as u64
    }

    /// As a JSON object without `apiVersion` and `kind`, which lists leave out.
    pub(crate) fn json(&self) -> &Bytes {
        self.body.json()
    }

    /// What follows `{"kind":"...","apiVersion":"..."` in the object's JSON.
    pub(crate) fn json_tail(&self, view: View) -> [Bytes; 3] {
        let json = self.body.json();
        match view {
            View::Whole if json.len() <= 2 => [Bytes::new(), Bytes::new(), Bytes::from_static(b"}")],
            View::Whole => [Bytes::from_static(b","), json.slice(1..), Bytes::new()],
            View::Metadata => {
                [Bytes::from_static(b",\"metadata\":"), self.body.metadata(), Bytes::from_static(b"}")]
            }
        }
    }

    /// As a bare protobuf message.
    ///
    /// # Errors
    /// The object does not fit its kind's schema, or its kind has none.
    pub(crate) fn protobuf(&self, view: View) -> Result<Bytes, codec::Error> {
        match view {
            View::Whole => codec::to_protobuf(&self.resource, &self.parsed()),
            View::Metadata => codec::metadata_to_protobuf(self.metadata()),
        }
    }

    /// Its bytes in that form, which all who ask for them soon share; `make` makes them for the first.
    pub(crate) fn encoded<E>(
        self: &Arc<Self>,
        form: Form,
        warm: &Warm,
        make: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        // Held while they are made: who comes meanwhile waits rather than making them as well.
        let mut encoded = self.encoded.lock();
        if let Some((_, bytes)) = encoded.iter().find(|(known, _)| *known == form) {
            return Ok(bytes.clone());
        }
        let bytes = make()?;
        encoded.push((form, bytes.clone()));
        drop(encoded);
        warm.note(self, bytes.len());
        Ok(bytes)
    }

    /// Drops all but the bytes.
    pub(super) fn cool(&self) {
        let value = self.value.lock().take();
        let encoded = std::mem::take(&mut *self.encoded.lock());
        drop((value, encoded));
    }
}
