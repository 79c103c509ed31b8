//! Converts JSON to the protobuf that upstream's Go types would write.

use serde_json::{Map, Value};

use super::error::TranscodeError;
use super::kind::Kind;
use super::message::{Field, Message, Shape, Type};
use super::path::Path;
use super::special;
use super::table::table;
use crate::wire::{self, Writer};

type Result<T> = std::result::Result<T, TranscodeError>;

/// Converts an object's JSON to its protobuf message, without envelope. The bytes equal those of upstream.
///
/// Leaves out members that the kind does not have, which [`super::unknown_fields`] lists. Null means "not set".
///
/// # Errors
/// A member has another type than its field; a quantity, time or base64 text is invalid; the object is nested too
/// deeply.
pub fn to_protobuf(kind: &Kind, object: &Value) -> Result<Vec<u8>> {
    kind.message.to_protobuf(object)
}

/// Converts an object's JSON to a protobuf body, whose envelope has the object's `apiVersion` and `kind`.
///
/// # Errors
/// As [`to_protobuf`]. Also: the object's kind is not built in.
pub fn encode(object: &Value) -> Result<Vec<u8>> {
    let text = |member: &str| object[member].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let known = table().kind_of(api_version, kind).ok_or_else(|| TranscodeError::UnknownKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    })?;
    Ok(wire::wrap(api_version, kind, &to_protobuf(known, object)?))
}

impl Message {
    /// Like [`to_protobuf`], for a message that is not a kind.
    ///
    /// # Errors
    /// As [`to_protobuf`].
    pub fn to_protobuf(&'static self, object: &Value) -> Result<Vec<u8>> {
        let mut out = Writer::new();
        match object {
            Value::Object(object) => write(self, object, &Path::ROOT, &mut out)?,
            other => return Err(TranscodeError::expected(Path::ROOT, "object", other)),
        }
        Ok(out.into_bytes())
    }
}

/// Encodes the members of an object as a message.
pub(super) fn write(
    message: &'static Message,
    object: &Map<String, Value>,
    at: &Path<'_>,
    out: &mut Writer,
) -> Result<()> {
    at.check_depth()?;
    for field in message.fields() {
        if let Some(inlined) = field.inlined() {
            let mut inner = Writer::new();
            write(inlined, object, at, &mut inner)?;
            out.bytes(field.number, &inner.into_bytes());
            continue;
        }
        let at = at.field(field.name);
        match (object.get(field.name), field.shape) {
            (None | Some(Value::Null), Shape::Single) => {
                if is_always_written(field) {
                    write_value(field.ty, field.number, &Value::Null, &at, out)?;
                }
            }
            (None | Some(Value::Null), _) => {}
            (Some(value), Shape::Single) => write_value(field.ty, field.number, value, &at, out)?,
            (Some(Value::Array(items)), Shape::List) => {
                for (index, item) in items.iter().enumerate() {
                    write_value(field.ty, field.number, item, &at.index(index), out)?;
                }
            }
            (Some(other), Shape::List) => return Err(TranscodeError::expected(at, "list", other)),
            (Some(Value::Object(entries)), Shape::Map) => {
                for (key, value) in entries {
                    let mut entry = Writer::new();
                    entry.text(1, key);
                    write_value(field.ty, 2, value, &at.field(key), &mut entry)?;
                    out.bytes(field.number, &entry.into_bytes());
                }
            }
            (Some(other), Shape::Map) => return Err(TranscodeError::expected(at, "map", other)),
        }
    }
    Ok(())
}

/// Whether the encoding has the field even if it is zero. Upstream's generated code writes every field that is neither
/// a pointer nor a slice.
fn is_always_written(field: &Field) -> bool {
    let is_list = matches!(field.ty, Type::Message(of) if of.is_list());
    !field.pointer && !is_list && !matches!(field.ty, Type::Bytes)
}

/// Encodes one value. Null is the zero value of the type.
fn write_value(ty: Type, number: u32, value: &Value, at: &Path<'_>, out: &mut Writer) -> Result<()> {
    let expected = |expected| TranscodeError::expected(at, expected, value);
    match (ty, value) {
        (Type::String, Value::Null) => out.text(number, ""),
        (Type::String, Value::String(text)) => out.text(number, text),
        (Type::String, _) => return Err(expected("string")),
        (Type::Bool, Value::Null) => out.bool(number, false),
        (Type::Bool, Value::Bool(value)) => out.bool(number, *value),
        (Type::Bool, _) => return Err(expected("bool")),
        (Type::Int32 | Type::Int64, Value::Null) => out.int64(number, 0),
        (Type::Int32, _) => {
            let fits = value.as_i64().filter(|value| i32::try_from(*value).is_ok());
            out.int64(number, fits.ok_or_else(|| expected("int32"))?);
        }
        (Type::Int64, _) => out.int64(number, value.as_i64().ok_or_else(|| expected("int64"))?),
        (Type::Double, Value::Null) => out.double(number, 0.0),
        (Type::Double, _) => out.double(number, value.as_f64().ok_or_else(|| expected("float64"))?),
        (Type::Bytes, Value::Null) => out.bytes(number, &[]),
        (Type::Bytes, Value::String(text)) => out.bytes(number, &special::bytes_from_text(text, at)?),
        (Type::Bytes, _) => return Err(expected("bytes")),
        (Type::Message(message), _) => write_message(message, number, value, at, out)?,
        _ => {
            let mut inner = Writer::new();
            special::to_protobuf(ty, value, at, &mut inner)?;
            out.bytes(number, &inner.into_bytes());
        }
    }
    Ok(())
}

fn write_message(
    message: &'static Message,
    number: u32,
    value: &Value,
    at: &Path<'_>,
    out: &mut Writer,
) -> Result<()> {
    let mut inner = Writer::new();
    match (value, message.fields()) {
        (Value::Null, _) if message.is_list() => {}
        (Value::Array(items), [field]) if message.is_list() => {
            for (index, item) in items.iter().enumerate() {
                write_value(field.ty, field.number, item, &at.index(index), &mut inner)?;
            }
        }
        (other, _) if message.is_list() => return Err(TranscodeError::expected(at, "list", other)),
        (Value::Null, _) => write(message, &Map::new(), at, &mut inner)?,
        (Value::Object(object), _) => write(message, object, at, &mut inner)?,
        (other, _) => return Err(TranscodeError::expected(at, "object", other)),
    }
    out.bytes(number, &inner.into_bytes());
    Ok(())
}
