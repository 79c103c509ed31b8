//! Between bytes and the JSON form that the server works on.

mod fold;

use bytes::Bytes;
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use steersman_api::schema::{self, Kind, TranscodeError};
use steersman_api::wire;

pub(crate) use fold::{check, read_members, read_metadata};

use crate::depth;
use crate::registry::Resource;
use crate::values;

/// Why an object has no bytes of that encoding, or bytes are no object.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Error {
    /// Not JSON: the client's fault.
    #[error("{0}")]
    Json(String),
    /// Does not fit the schema of its kind: the client's fault.
    #[error(transparent)]
    Transcode(TranscodeError),
    /// More values than an object may have: the client's fault.
    #[error("at most {} values are accepted", values::LIMIT)]
    TooManyValues,
    /// The envelope says that the body is of another kind than can be taken: the client's fault.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    OtherKind {
        /// What the envelope says.
        api_version: String,
        /// What the envelope says.
        kind: String,
    },
    /// Custom resources have no protobuf form: another encoding must be used.
    #[error("the kind has no protobuf form")]
    NoSchema,
}

impl From<TranscodeError> for Error {
    fn from(error: TranscodeError) -> Self {
        match error {
            TranscodeError::TooManyValues { .. } => Self::TooManyValues,
            error => Self::Transcode(error),
        }
    }
}

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `application/json`.
    Json,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

/// The members of an object but `apiVersion` and `kind`.
struct WithoutType<'a>(&'a Map<String, Value>);

impl Serialize for WithoutType<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.0.iter().filter(|(name, _)| *name != "apiVersion" && *name != "kind") {
            match value {
                Value::Object(metadata) if name == "metadata" => {
                    map.serialize_entry(name, &Unfolded(metadata, unfold_metadata))?;
                }
                value => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

/// An object some member of which is kept in another form than clients know: the function knows it, and its form.
struct Unfolded<'a>(&'a Map<String, Value>, fn(&'a str, &'a Value) -> Option<Form<'a>>);

/// The form in which clients know a member.
#[derive(Serialize)]
#[serde(untagged)]
enum Form<'a> {
    /// Of a list: each item is an object with such a member.
    List(Vec<Unfolded<'a>>),
    /// The value's text.
    Text(&'a RawValue),
}

impl Serialize for Unfolded<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            match self.1(name, value) {
                Some(form) => map.serialize_entry(name, &form)?,
                None => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

fn unfold_metadata<'a>(name: &'a str, value: &'a Value) -> Option<Form<'a>> {
    let entries = value.as_array().filter(|_| name == "managedFields")?;
    let entries = entries.iter().map(|entry| Some(Unfolded(entry.as_object()?, unfold_entry)));
    Some(Form::List(entries.collect::<Option<_>>()?))
}

/// See [`crate::managed_fields`]: the fields are kept as text.
fn unfold_entry<'a>(name: &'a str, value: &'a Value) -> Option<Form<'a>> {
    let text = value.as_str().filter(|_| name == "fieldsV1")?;
    serde_json::from_str(text).ok().map(Form::Text)
}

/// The bytes of a JSON value.
pub(crate) fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("a JSON value must have a text").into()
}

/// An object's JSON without `apiVersion` and `kind`, as in a list of a built-in kind.
pub(crate) fn json_without_type(object: &Value) -> Bytes {
    match object {
        Value::Object(members) => json(&WithoutType(members)),
        other => json(other),
    }
}

/// Adds the bytes of a JSON value.
pub(crate) fn write_json(value: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a JSON value must have a text");
}

/// Adds the bytes of a member of metadata, in the form that clients know.
pub(crate) fn write_metadata_member(name: &str, value: &Value, out: &mut Vec<u8>) {
    match unfold_metadata(name, value) {
        Some(form) => write_json(&form, out),
        None => write_json(value, out),
    }
}

/// An object's bare message.
pub(crate) fn to_protobuf(resource: &Resource, object: &Value) -> Result<Bytes, Error> {
    let kind = resource.schema.ok_or(Error::NoSchema)?;
    Ok(schema::to_protobuf(kind, object)?.into())
}

/// The bare message of a `PartialObjectMetadata`.
pub(crate) fn metadata_to_protobuf(metadata: Map<String, Value>) -> Result<Bytes, Error> {
    let mut object = Map::new();
    object.insert("metadata".to_owned(), Value::Object(metadata));
    Ok(schema::to_protobuf(partial_object_metadata(), &Value::Object(object))?.into())
}

fn partial_object_metadata() -> &'static Kind {
    schema::table()
        .kind("meta.k8s.io", "v1", "PartialObjectMetadata")
        .expect("the schema table must hold what every server speaks")
}

/// Decodes the body of a request as an object of that kind. Of JSON, the caller must check the kind: a body may leave it out.
///
/// A body is refused before anything is made of it where it has too many values or, in protobuf, another kind: that says of
/// every kind how it is decoded, of large lists as well.
pub(crate) fn decode(format: Format, body: &[u8], kind: &str) -> Result<Value, Error> {
    let object = match format {
        Format::Json if values::are_too_many_in(body) => return Err(Error::TooManyValues),
        Format::Json => serde_json::from_slice(body).map_err(|error| Error::Json(error.to_string()))?,
        Format::Protobuf => decode_protobuf(body, kind)?,
    };
    if depth::of(&object) > depth::LIMIT {
        return Err(Error::Json(depth::message()));
    }
    Ok(object)
}

fn decode_protobuf(body: &[u8], expected: &str) -> Result<Value, Error> {
    let wire::Envelope { api_version, kind, raw } = wire::unwrap(body)
        .map_err(|source| Error::Transcode(TranscodeError::Wire { path: String::new(), source }))?;
    let known = schema::table().kind_of(api_version, kind).filter(|_| kind == expected);
    let Some(known) = known else {
        return Err(Error::OtherKind { api_version: api_version.to_owned(), kind: kind.to_owned() });
    };
    Ok(schema::to_json_within(known, raw, values::LIMIT)?)
}

/// The canonical form of an object, see [`schema::normalize`].
pub(crate) fn normalize(kind: &Kind, object: &Value) -> Result<Value, Error> {
    Ok(schema::normalize_within(kind, object, values::LIMIT)?)
}
