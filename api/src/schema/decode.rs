//! Converts protobuf to the JSON that upstream's Go types would write.

use std::borrow::Cow;
use std::cell::Cell;

use serde_json::{Map, Number, Value};

use super::error::TranscodeError;
use super::kind::Kind;
use super::message::{Field, Message, Omit, Shape, Type};
use super::path::Path;
use super::special;
use super::table::table;
use crate::wire::{self, Reader, Value as Wire};

type Result<T> = std::result::Result<T, TranscodeError>;

/// Converts an object's protobuf message, without envelope, to JSON. Sets `apiVersion` and `kind` to those of `kind`.
///
/// The JSON has the same members as upstream's: depending on the tags of the Go type, a field that is not set is left
/// out, null or zero. Protobuf can't distinguish an empty list or map from a missing one. Where upstream's JSON always
/// has the member, the `items` of a list kind become an empty list, and any other list or map becomes null. Fields that
/// the table does not have are dropped.
///
/// # Errors
/// The bytes are not a message of this kind, or are nested too deeply.
pub fn to_json(kind: &Kind, protobuf: &[u8]) -> Result<Value> {
    object(kind.message, &kind.api_version(), kind.name, protobuf, &Path::ROOT)
}

/// Like [`to_json`], for untrusted bytes: fails as soon as the object has more than `most` values.
///
/// Each object, list, text, number, boolean and null of the JSON is a value. The length of a message does not bound
/// their number, since JSON has members that protobuf leaves out: an empty item of two bytes may become dozens of
/// values. While a message is being decoded, its zeros count too, even the few that its JSON leaves out in the end.
///
/// # Errors
/// As [`to_json`], and [`TranscodeError::TooManyValues`].
pub fn to_json_within(kind: &Kind, protobuf: &[u8], most: usize) -> Result<Value> {
    let left = Cell::new(most);
    object(kind.message, &kind.api_version(), kind.name, protobuf, &Path::limited(&left))
}

/// Converts a protobuf body to JSON. The body's envelope names the kind.
///
/// # Errors
/// As [`to_json`]. Also: the body has no envelope, or its kind is not built in.
pub fn decode(body: &[u8]) -> Result<Value> {
    decode_at(body, &Path::ROOT)
}

pub(super) fn decode_at(body: &[u8], at: &Path<'_>) -> Result<Value> {
    let envelope = wire::unwrap(body).map_err(TranscodeError::wire(at))?;
    let kind = table().kind_of(envelope.api_version, envelope.kind).ok_or_else(|| {
        let (api_version, kind) = (envelope.api_version.to_owned(), envelope.kind.to_owned());
        TranscodeError::UnknownKind { api_version, kind }
    })?;
    object(kind.message, envelope.api_version, envelope.kind, envelope.raw, at)
}

impl Message {
    /// Like [`to_json`], for a message that is not a kind, such as `meta.v1.WatchEvent`.
    ///
    /// # Errors
    /// As [`to_json`].
    pub fn to_json(&'static self, protobuf: &[u8]) -> Result<Value> {
        let mut object = Map::new();
        fill(self, protobuf, &Path::ROOT, &mut object)?;
        Ok(Value::Object(object))
    }
}

fn object(
    message: &'static Message,
    api_version: &str,
    kind: &str,
    raw: &[u8],
    at: &Path<'_>,
) -> Result<Value> {
    at.count(3)?;
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    fill(message, raw, at, &mut object)?;
    Ok(Value::Object(object))
}

/// Decodes a message into the members of an object.
pub(super) fn fill(
    message: &'static Message,
    bytes: &[u8],
    at: &Path<'_>,
    object: &mut Map<String, Value>,
) -> Result<()> {
    at.check_depth()?;
    let fields = message.fields();
    let wire = TranscodeError::wire(at);
    // An embedded message that occurs twice is the concatenation of both, so this collects them all before it decodes
    // any.
    let mut embedded: Vec<(&'static Field, Cow<'_, [u8]>)> = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some(found) = reader.field().map_err(&wire)? {
        let Ok(index) = fields.binary_search_by_key(&found.number, |field| field.number) else { continue };
        let field = &fields[index];
        match field.shape {
            Shape::Single if is_embedded(field.ty) => {
                let bytes = found.bytes().map_err(&wire)?;
                match embedded.iter_mut().find(|(known, _)| known.number == field.number) {
                    Some((_, before)) => before.to_mut().extend_from_slice(bytes),
                    None => embedded.push((field, Cow::Borrowed(bytes))),
                }
            }
            Shape::Single => {
                object.insert(field.name.to_owned(), value(field.ty, found.value, &at.field(field.name))?);
            }
            Shape::List => push(field, found.value, at, object)?,
            Shape::Map => {
                let (key, entry) = map_entry(field, found.bytes().map_err(&wire)?, &at.field(field.name))?;
                if let Value::Object(map) = member(object, field.name, at, || Value::Object(Map::new()))? {
                    map.insert(key, entry);
                }
            }
        }
    }
    for (field, bytes) in &embedded {
        embed(field, bytes, at, object)?;
    }
    complete(message, at, object, |field| embedded.iter().any(|(known, _)| known.number == field.number))
}

fn is_embedded(ty: Type) -> bool {
    !matches!(ty, Type::String | Type::Bool | Type::Int32 | Type::Int64 | Type::Double | Type::Bytes)
}

/// Returns the member of this name. Inserts `new()` if it is missing.
fn member<'a>(
    object: &'a mut Map<String, Value>,
    name: &str,
    at: &Path<'_>,
    new: impl FnOnce() -> Value,
) -> Result<&'a mut Value> {
    if !object.contains_key(name) {
        at.count(1)?;
        object.insert(name.to_owned(), new());
    }
    Ok(object.get_mut(name).expect("a member must be there once it was inserted"))
}

fn push(
    field: &'static Field,
    found: Wire<'_>,
    at: &Path<'_>,
    object: &mut Map<String, Value>,
) -> Result<()> {
    let at = at.field(field.name);
    let list = member(object, field.name, &at, || Value::Array(Vec::new()))?;
    let Value::Array(list) = list else { return Ok(()) };
    match (field.ty, found) {
        // A list of numbers may be packed into one field.
        (Type::Bool | Type::Int32 | Type::Int64, Wire::Bytes(packed)) => {
            let wire = TranscodeError::wire(at);
            let mut numbers = PackedVarints(packed);
            while let Some(number) = numbers.next().map_err(&wire)? {
                list.push(value(field.ty, Wire::Varint(number), &at)?);
            }
        }
        _ => list.push(value(field.ty, found, &at.index(list.len()))?),
    }
    Ok(())
}

struct PackedVarints<'a>(&'a [u8]);

impl PackedVarints<'_> {
    fn next(&mut self) -> std::result::Result<Option<u64>, wire::WireError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let mut number = 0;
        for (at, byte) in self.0.iter().copied().enumerate().take(10) {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.0 = &self.0[at + 1..];
                return Ok(Some(number));
            }
        }
        Err(if self.0.len() < 10 { wire::WireError::Truncated } else { wire::WireError::Overlong })
    }
}

fn map_entry(field: &'static Field, entry: &[u8], at: &Path<'_>) -> Result<(String, Value)> {
    let wire = TranscodeError::wire(at);
    let (mut key, mut found) = ("", None);
    let mut reader = Reader::new(entry);
    while let Some(part) = reader.field().map_err(&wire)? {
        match part.number {
            1 => key = part.text().map_err(&wire)?,
            2 => found = Some(part.value),
            _ => {}
        }
    }
    let at = at.field(key);
    let entry = match found {
        Some(found) => value(field.ty, found, &at)?,
        None => {
            at.count(1)?;
            zero(field.ty, &at)?
        }
    };
    Ok((key.to_owned(), entry))
}

/// Decodes one value. A message must be complete: it must not continue in another field.
fn value(ty: Type, found: Wire<'_>, at: &Path<'_>) -> Result<Value> {
    at.count(1)?;
    let field = wire::Field { number: 0, value: found };
    let mismatch = |_| TranscodeError::value(at, "the value has another wire type than declared");
    Ok(match ty {
        Type::String => {
            let bytes = field.bytes().map_err(mismatch)?;
            let text =
                std::str::from_utf8(bytes).map_err(|_| TranscodeError::value(at, "the text is not UTF-8"))?;
            text.into()
        }
        Type::Bool => field.bool().map_err(mismatch)?.into(),
        Type::Int32 => field.int32().map_err(mismatch)?.into(),
        Type::Int64 => field.int64().map_err(mismatch)?.into(),
        Type::Double => match found {
            Wire::Fixed64(bits) => double_to_json(f64::from_bits(bits), at)?,
            _ => return Err(mismatch(wire::WireError::NoEnvelope)),
        },
        Type::Bytes => special::bytes_to_text(field.bytes().map_err(mismatch)?).into(),
        _ => embedded_value(ty, field.bytes().map_err(mismatch)?, at)?,
    })
}

fn embedded_value(ty: Type, bytes: &[u8], at: &Path<'_>) -> Result<Value> {
    let Type::Message(message) = ty else { return special::to_json(ty, bytes, at) };
    let mut object = Map::new();
    fill(message, bytes, at, &mut object)?;
    if message.is_list() {
        let items = object.into_iter().map(|(_, items)| items).find(Value::is_array);
        return Ok(items.unwrap_or_else(|| Value::Array(Vec::new())));
    }
    Ok(Value::Object(object))
}

/// Converts a number. As in Go, a whole number has no fraction in JSON.
fn double_to_json(number: f64, at: &Path<'_>) -> Result<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation)] // whole, and below 2^53
    if number.fract() == 0.0 && number.abs() < EXACT {
        return Ok((number as i64).into());
    }
    let number =
        Number::from_f64(number).ok_or_else(|| TranscodeError::value(at, "the number is not finite"))?;
    Ok(Value::Number(number))
}

fn embed(field: &'static Field, bytes: &[u8], at: &Path<'_>, object: &mut Map<String, Value>) -> Result<()> {
    match field.inlined() {
        Some(message) => fill(message, bytes, at, object),
        None => {
            at.count(1)?;
            let value = embedded_value(field.ty, bytes, &at.field(field.name))?;
            object.insert(field.name.to_owned(), value);
            Ok(())
        }
    }
}

/// The JSON of a field that was not sent and is not a pointer in Go: its zero value.
fn zero(ty: Type, at: &Path<'_>) -> Result<Value> {
    Ok(match ty {
        Type::String | Type::Bytes => "".into(),
        Type::Bool => false.into(),
        Type::Int32 | Type::Int64 | Type::Double => 0.into(),
        _ => embedded_value(ty, &[], at)?,
    })
}

/// Adds the members that the JSON always has, and drops those that it leaves out when they are empty.
fn complete(
    message: &'static Message,
    at: &Path<'_>,
    object: &mut Map<String, Value>,
    was_embedded: impl Fn(&Field) -> bool,
) -> Result<()> {
    for field in message.fields() {
        if let Some(inlined) = field.inlined() {
            if !was_embedded(field) {
                fill(inlined, &[], at, object)?;
            }
            continue;
        }
        match object.get(field.name) {
            Some(value) => {
                if !field.pointer && is_omitted(field, value) {
                    object.remove(field.name);
                    at.drop_one();
                }
            }
            None => {
                if let Some(value) = unset(message, field, &at.field(field.name))? {
                    object.insert(field.name.to_owned(), value);
                }
            }
        }
    }
    Ok(())
}

/// Whether the JSON leaves out this value of a field that is not a pointer in Go. Go's `omitempty` never leaves out
/// values with a JSON form of their own, such as times.
fn is_omitted(field: &Field, value: &Value) -> bool {
    match field.omit {
        Omit::Zero => value.is_null(),
        Omit::Empty if !is_embedded(field.ty) => match value {
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            _ => false,
        },
        _ => false,
    }
}

fn unset(message: &'static Message, field: &'static Field, at: &Path<'_>) -> Result<Option<Value>> {
    let is_list = field.shape != Shape::Single || matches!(field.ty, Type::Message(of) if of.is_list());
    let has_no_zero = field.pointer || is_list || matches!(field.ty, Type::Bytes);
    let omitted = match field.omit {
        Omit::Never => false,
        Omit::Zero => true,
        _ => has_no_zero || !is_embedded(field.ty),
    };
    if omitted {
        return Ok(None);
    }
    at.count(1)?;
    if !has_no_zero {
        return zero(field.ty, at).map(Some);
    }
    let is_items = field.name == "items" && message.short_name().ends_with("List");
    Ok(Some(if is_items { Value::Array(Vec::new()) } else { Value::Null }))
}
