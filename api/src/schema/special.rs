//! Converts the types whose JSON is not an object with the fields of their protobuf message, such as times and
//! quantities.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use super::error::TranscodeError;
use super::message::{Message, Type};
use super::path::Path;
use super::table::table;
use super::values::count_values;
use super::{decode, encode};
use crate::Quantity;
use crate::go_json;
use crate::quantity::ParsedQuantity;
use crate::wire::{self, Reader, Writer};

type Result<T> = std::result::Result<T, TranscodeError>;

/// The message of the schemas within `JSONSchemaPropsOr...`.
fn schema_props() -> &'static Message {
    table().message("apiextensions.v1.JSONSchemaProps").expect("the schema table must have JSONSchemaProps")
}

/// Converts the message of a special type to JSON. An empty message is a value that is not set.
pub(super) fn to_json(ty: Type, bytes: &[u8], at: &Path<'_>) -> Result<Value> {
    match ty {
        Type::Time | Type::MicroTime => time_to_json(ty, bytes, at),
        Type::Quantity => quantity_to_json(bytes, at),
        Type::IntOrString => int_or_string_to_json(bytes, at),
        Type::RawExtension | Type::FieldsV1 | Type::Json => raw_to_json(bytes, at),
        _ => schema_or_to_json(ty, bytes, at),
    }
}

/// Converts the JSON of a special type to its message. Null is a value that is not set.
pub(super) fn to_protobuf(ty: Type, value: &Value, at: &Path<'_>, out: &mut Writer) -> Result<()> {
    match ty {
        Type::Time | Type::MicroTime => time_to_protobuf(ty, value, at, out),
        Type::Quantity => quantity_to_protobuf(value, at, out),
        Type::IntOrString => int_or_string_to_protobuf(value, at, out),
        // The embedded API server keeps a set of fields as a text of JSON, which takes less memory.
        Type::FieldsV1 if value.as_str().is_some_and(|text| text.starts_with('{')) => {
            out.bytes(1, value.as_str().unwrap_or_default().as_bytes());
            Ok(())
        }
        // Controllers of upstream compare the data of revisions byte for byte with what Go would write.
        Type::RawExtension | Type::FieldsV1 | Type::Json => {
            if !value.is_null() {
                out.bytes(1, go_json::marshal(value).as_bytes());
            }
            Ok(())
        }
        _ => schema_or_to_protobuf(ty, value, at, out),
    }
}

/// Decodes base64, and ignores line breaks.
pub(super) fn bytes_from_text(text: &str, at: &Path<'_>) -> Result<Vec<u8>> {
    let decoded = if text.contains(['\r', '\n']) {
        BASE64.decode(text.replace(['\r', '\n'], ""))
    } else {
        BASE64.decode(text)
    };
    decoded.map_err(|_| TranscodeError::value(at, "illegal base64 data"))
}

/// Encodes base64.
pub(super) fn bytes_to_text(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Go's zero time, in seconds since 1970. Go writes it as null.
const GO_ZERO_SECONDS: i64 = -62_135_596_800;

fn time_to_json(ty: Type, bytes: &[u8], at: &Path<'_>) -> Result<Value> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes);
    let wire = TranscodeError::wire(at);
    while let Some(field) = reader.field().map_err(&wire)? {
        match field.number {
            1 => seconds = field.int64().map_err(&wire)?,
            2 => nanos = field.int32().map_err(&wire)?,
            _ => {}
        }
    }
    if !matches!(ty, Type::MicroTime) {
        nanos = 0; // upstream ignores the fraction of a Time
    }
    let stamp = jiff::Timestamp::new(seconds, nanos).map_err(|error| TranscodeError::value(at, error))?;
    if seconds == GO_ZERO_SECONDS && nanos == 0 {
        return Ok(Value::Null);
    }
    let text = if matches!(ty, Type::MicroTime) { format!("{stamp:.6}") } else { stamp.to_string() };
    Ok(Value::String(text))
}

fn time_to_protobuf(ty: Type, value: &Value, at: &Path<'_>, out: &mut Writer) -> Result<()> {
    let text = match value {
        Value::Null => return Ok(()),
        Value::String(text) => text,
        other => return Err(TranscodeError::expected(at, "Time", other)),
    };
    if matches!(ty, Type::MicroTime) && !is_to_the_microsecond(text) {
        return Err(TranscodeError::value(
            at,
            format!("{text:?} does not have six digits after the seconds"),
        ));
    }
    let stamp: jiff::Timestamp = text.parse().map_err(|error| TranscodeError::value(at, error))?;
    // Go's nanoseconds are positive before 1970 too.
    let (mut seconds, mut nanos) = (stamp.as_second(), stamp.subsec_nanosecond());
    if nanos < 0 {
        (seconds, nanos) = (seconds - 1, nanos + 1_000_000_000);
    }
    if seconds == GO_ZERO_SECONDS && nanos == 0 {
        return Ok(());
    }
    out.int64(1, seconds);
    out.int64(2, if matches!(ty, Type::MicroTime) { i64::from(nanos / 1000 * 1000) } else { 0 });
    Ok(())
}

/// Whether the text has six digits after its seconds. Upstream accepts no other form.
fn is_to_the_microsecond(text: &str) -> bool {
    let digits = text.split_once('.').map_or("", |(_, fraction)| fraction);
    digits.bytes().take_while(u8::is_ascii_digit).count() == 6
}

/// The text that upstream writes for a quantity: in its canonical form, except for the few other texts that it keeps.
fn canonical_quantity(text: &str, at: &Path<'_>) -> Result<String> {
    let text = text.trim();
    let quantity: Quantity = text.parse().map_err(|error| TranscodeError::value(at, error))?;
    let kept = ParsedQuantity::of(text).and_then(|parsed| parsed.text);
    Ok(kept.map_or_else(|| quantity.to_string(), str::to_owned))
}

fn quantity_to_json(bytes: &[u8], at: &Path<'_>) -> Result<Value> {
    let wire = TranscodeError::wire(at);
    let mut reader = Reader::new(bytes);
    let mut quantity = "0".to_owned();
    while let Some(field) = reader.field().map_err(&wire)? {
        if field.number == 1 {
            quantity = canonical_quantity(field.text().map_err(&wire)?, at)?;
        }
    }
    Ok(Value::String(quantity))
}

fn quantity_to_protobuf(value: &Value, at: &Path<'_>, out: &mut Writer) -> Result<()> {
    let text = match value {
        Value::Null => "0".to_owned(),
        Value::String(text) => canonical_quantity(text, at)?,
        Value::Number(number) => canonical_quantity(&number.to_string(), at)?,
        other => return Err(TranscodeError::expected(at, "Quantity", other)),
    };
    out.text(1, &text);
    Ok(())
}

fn int_or_string_to_json(bytes: &[u8], at: &Path<'_>) -> Result<Value> {
    let wire = TranscodeError::wire(at);
    let mut reader = Reader::new(bytes);
    let (mut ty, mut number, mut text) = (0, 0, "");
    while let Some(field) = reader.field().map_err(&wire)? {
        match field.number {
            1 => ty = field.int64().map_err(&wire)?,
            2 => number = field.int32().map_err(&wire)?,
            3 => text = field.text().map_err(&wire)?,
            _ => {}
        }
    }
    match ty {
        0 => Ok(number.into()),
        1 => Ok(text.into()),
        _ => Err(TranscodeError::value(at, "impossible IntOrString.Type")),
    }
}

fn int_or_string_to_protobuf(value: &Value, at: &Path<'_>, out: &mut Writer) -> Result<()> {
    let (ty, number, text) = match value {
        Value::Null => (0, 0, ""),
        Value::String(text) => (1, 0, text.as_str()),
        number => {
            let fits = number.as_i64().filter(|number| i32::try_from(*number).is_ok());
            (0, fits.ok_or_else(|| TranscodeError::expected(at, "IntOrString", number))?, "")
        }
    };
    out.int64(1, ty);
    out.int64(2, number);
    out.text(3, text);
    Ok(())
}

/// Decodes an embedded object: JSON, or protobuf with its envelope, as in watch events.
fn raw_to_json(bytes: &[u8], at: &Path<'_>) -> Result<Value> {
    let wire = TranscodeError::wire(at);
    let mut reader = Reader::new(bytes);
    let mut raw: &[u8] = &[];
    while let Some(field) = reader.field().map_err(&wire)? {
        if field.number == 1 {
            raw = field.bytes().map_err(&wire)?;
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    if raw.starts_with(wire::MAGIC) {
        at.check_depth()?;
        return decode::decode_at(raw, at);
    }
    at.count(count_values(raw))?;
    serde_json::from_slice(raw).map_err(|error| TranscodeError::value(at, error))
}

fn schema_to_json(bytes: &[u8], at: &Path<'_>) -> Result<Value> {
    let mut schema = Map::new();
    decode::fill(schema_props(), bytes, at, &mut schema)?;
    Ok(Value::Object(schema))
}

fn schema_or_to_json(ty: Type, bytes: &[u8], at: &Path<'_>) -> Result<Value> {
    let wire = TranscodeError::wire(at);
    let mut reader = Reader::new(bytes);
    let (mut allows, mut schema, mut list) = (false, None, Vec::new());
    while let Some(field) = reader.field().map_err(&wire)? {
        match (ty, field.number) {
            (Type::SchemaOrBool, 1) => allows = field.bool().map_err(&wire)?,
            (Type::SchemaOrBool, 2) | (_, 1) => schema = Some(field.bytes().map_err(&wire)?),
            (Type::SchemaOrArray, 2) => {
                at.count(1)?;
                list.push(schema_to_json(field.bytes().map_err(&wire)?, &at.index(list.len()))?);
            }
            (_, 2) => {
                at.count(1)?;
                list.push(field.text().map_err(&wire)?.into());
            }
            _ => {}
        }
    }
    match schema {
        _ if !list.is_empty() => Ok(Value::Array(list)),
        Some(schema) => schema_to_json(schema, at),
        None if matches!(ty, Type::SchemaOrBool) => Ok(allows.into()),
        None => Ok(Value::Null),
    }
}

fn schema_or_to_protobuf(ty: Type, value: &Value, at: &Path<'_>, out: &mut Writer) -> Result<()> {
    let write_schema = |number, schema: &Map<String, Value>, at: &Path<'_>, out: &mut Writer| {
        let mut inner = Writer::new();
        encode::write(schema_props(), schema, at, &mut inner)?;
        out.bytes(number, &inner.into_bytes());
        Ok(())
    };
    match (ty, value) {
        (Type::SchemaOrBool, Value::Null) => out.bool(1, false),
        (Type::SchemaOrBool, Value::Bool(allows)) => out.bool(1, *allows),
        (Type::SchemaOrBool, Value::Object(schema)) => {
            out.bool(1, true);
            write_schema(2, schema, at, out)?;
        }
        (Type::SchemaOrBool, other) => {
            return Err(TranscodeError::expected(at, "boolean or JSON schema", other));
        }
        (_, Value::Object(schema)) => write_schema(1, schema, at, out)?,
        (_, Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let at = at.index(index);
                match (ty, item) {
                    (Type::SchemaOrArray, Value::Object(schema)) => write_schema(2, schema, &at, out)?,
                    (Type::SchemaOrStrings, Value::String(name)) => out.text(2, name),
                    (Type::SchemaOrArray, other) => {
                        return Err(TranscodeError::expected(at, "JSON schema", other));
                    }
                    (_, other) => return Err(TranscodeError::expected(at, "string", other)),
                }
            }
        }
        // Upstream treats any other value as "not set".
        _ => {}
    }
    Ok(())
}
