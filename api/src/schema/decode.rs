//! JSON from protobuf, as upstream's Go types would render it.

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

/// An object from its protobuf message (without envelope), with `apiVersion` and `kind` set to the kind's.
///
/// The JSON has the members that upstream's has: what was not set is left out, null or zero as the Go type's tags say.
/// Protobuf can't tell an empty list or map from none; where JSON always has the member, a list kind's `items` becomes an
/// empty list and everything else null. Field numbers that the table does not know are dropped.
///
/// # Errors
/// Bytes that are not this kind's message, or nested too deep.
pub fn to_json(kind: &Kind, protobuf: &[u8]) -> Result<Value> {
    object(kind.message, &kind.api_version(), kind.name, protobuf, &Path::ROOT)
}

/// As [`to_json`], for bytes of strangers: decoding ends as soon as it holds more than `most` values.
///
/// Each object, list, text, number, boolean and null counts, also what the JSON form has without having been sent: an empty
/// item of two bytes may become dozens of values, so the length of a message says little of its size in memory. While a
/// message is decoded its zeros count as well, those few that JSON leaves out.
///
/// # Errors
/// As [`to_json`], and [`TranscodeError::TooManyValues`].
pub fn to_json_within(kind: &Kind, protobuf: &[u8], most: usize) -> Result<Value> {
    let left = Cell::new(most);
    object(kind.message, &kind.api_version(), kind.name, protobuf, &Path::limited(&left))
}

/// An object from a body as it comes over the wire, with the envelope that says which kind it is.
///
/// # Errors
/// As [`to_json`]; also a body without envelope, and an unknown kind.
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
    /// JSON of a message that is no kind, such as `meta.v1.WatchEvent`; see [`to_json`].
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

/// Reads a message into an object.
pub(super) fn fill(
    message: &'static Message,
    bytes: &[u8],
    at: &Path<'_>,
    object: &mut Map<String, Value>,
) -> Result<()> {
    at.check_depth()?;
    let fields = message.fields();
    let wire = TranscodeError::wire(at);
    // A message that stands there twice is the sum of both, so none is read before all have been seen.
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

/// The member of this name, made if it is not there.
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
        // Numbers may come packed, all in one field.
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

/// One value. Messages must be complete in it.
fn value(ty: Type, found: Wire<'_>, at: &Path<'_>) -> Result<Value> {
    at.count(1)?;
    let field = wire::Field { number: 0, value: found };
    let mismatch = |_| TranscodeError::value(at, "the value has another wire type than declared");
    Ok(match ty {
        Type::String => {
            let bytes = field.bytes().map_err(mismatch)?;
            let text = std::str::from_utf8(bytes).map_err(|_| TranscodeError::value(at, "not UTF-8"))?;
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

/// Go writes a whole number without a fraction.
fn double_to_json(number: f64, at: &Path<'_>) -> Result<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation)] // whole, and below 2^53
    if number.fract() == 0.0 && number.abs() < EXACT {
        return Ok((number as i64).into());
    }
    let number = Number::from_f64(number).ok_or_else(|| TranscodeError::value(at, "not a finite number"))?;
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

/// The zero value that stands where a field that is no pointer was not sent.
fn zero(ty: Type, at: &Path<'_>) -> Result<Value> {
    Ok(match ty {
        Type::String | Type::Bytes => "".into(),
        Type::Bool => false.into(),
        Type::Int32 | Type::Int64 | Type::Double => 0.into(),
        _ => embedded_value(ty, &[], at)?,
    })
}

/// Adds what JSON always has, drops what it has only when it is not empty.
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

/// Whether JSON leaves out a value that is no pointer. What has a form of its own is never empty to Go.
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
