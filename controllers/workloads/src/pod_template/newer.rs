//! Converts the fields of pod templates that the schema table lacks, since the table is older than the newest layout.
//!
//! The layout has their names, types and numbers. They are converted whatever the API server's version is: an API server that
//! lacks them sends none.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use steersman_api::schema::{self, Message, Shape};
use steersman_api::wire::{Field, Reader, WireError, Writer};

use super::Error;
use super::layout::{self, Layout, Structs, Type};

/// The structs of the newest layout, which has all fields of the others.
fn structs() -> &'static Structs {
    Layout::V1_37.structs()
}

/// Whether a layout has this field of `message`, which the schema table lacks, and all fields within it.
pub(super) fn is_known(layout: Layout, message: &Message, found: Field<'_>) -> bool {
    is_one_of(layout.structs(), layout.structs().newer_fields(message.short_name()), found).unwrap_or(false)
}

/// Whether `found` is one of these fields, and the layout has all fields within it.
fn is_one_of<'f>(
    structs: &Structs,
    mut fields: impl Iterator<Item = &'f layout::Field>,
    found: Field<'_>,
) -> Result<bool, WireError> {
    let Some(field) = fields.find(|field| field.number == Some(found.number)) else { return Ok(false) };
    if let Type::Struct(of) = element(&field.ty) {
        let mut parts = found.message()?;
        while let Some(part) = parts.field()? {
            if !is_one_of(structs, structs.at(*of).fields.iter(), part)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The type that a pointer points to, or that a list contains.
fn element(ty: &Type) -> &Type {
    match ty {
        Type::Pointer(of) | Type::Slice(of) => element(of),
        _ => ty,
    }
}

/// Adds the newer fields in a message to its JSON, which lacks them.
///
/// # Errors
/// The bytes are not valid protobuf.
pub(super) fn add_to_json(
    message: &'static Message,
    bytes: &[u8],
    json: &mut Value,
) -> Result<(), WireError> {
    let Value::Object(members) = json else { return Ok(()) };
    read_message(message, bytes, members)
}

fn read_message(
    message: &'static Message,
    bytes: &[u8],
    members: &mut Map<String, Value>,
) -> Result<(), WireError> {
    let (mut reader, mut items) = (Reader::new(bytes), Items::default());
    while let Some(found) = reader.field()? {
        match place(message, found.number, &mut items) {
            Place::Inlined(inner) => read_message(inner, found.bytes()?, members)?,
            Place::Member(inner, name) => {
                if let Some(Value::Object(members)) = members.get_mut(name) {
                    read_message(inner, found.bytes()?, members)?;
                }
            }
            Place::Item(inner, name, at) => {
                if let Some(Value::Object(members)) = members.get_mut(name).and_then(|list| list.get_mut(at))
                {
                    read_message(inner, found.bytes()?, members)?;
                }
            }
            Place::Value => {}
            Place::Unknown => {
                let mut newer = structs().newer_fields(message.short_name());
                if let Some(field) = newer.find(|field| field.number == Some(found.number)) {
                    read(field, found, members)?;
                }
            }
        }
    }
    Ok(())
}

/// Adds the newer fields in a message's JSON to the message, which lacks them.
///
/// # Errors
/// A newer field has another type than Kubernetes declares.
pub(super) fn add_to_protobuf(
    message: &'static Message,
    json: &Value,
    bytes: &[u8],
) -> Result<Vec<u8>, Error> {
    let mut out = Writer::new();
    if let Value::Object(members) = json {
        write_message(message, members, bytes, &mut out)?;
    }
    Ok(out.into_bytes())
}

fn write_message(
    message: &'static Message,
    members: &Map<String, Value>,
    bytes: &[u8],
    out: &mut Writer,
) -> Result<(), Error> {
    let (mut reader, mut items) = (Reader::new(bytes), Items::default());
    while let Some(found) = reader.field()? {
        let embedded = match place(message, found.number, &mut items) {
            Place::Inlined(inner) => Some((inner, Some(members))),
            Place::Member(inner, name) => Some((inner, members.get(name).and_then(Value::as_object))),
            Place::Item(inner, name, at) => {
                Some((inner, members.get(name).and_then(|list| list.get(at)).and_then(Value::as_object)))
            }
            Place::Value | Place::Unknown => None,
        };
        if let Some((inner, Some(members))) = embedded {
            let mut embedded = Writer::new();
            write_message(inner, members, found.bytes()?, &mut embedded)?;
            out.bytes(found.number, &embedded.into_bytes());
        } else {
            out.field(found);
        }
    }
    for field in structs().newer_fields(message.short_name()) {
        write(field, members, out)?;
    }
    Ok(())
}

/// The number of items read so far of each list, by the list's field number.
type Items = BTreeMap<u32, usize>;

/// Where a message's JSON has the value of a field.
enum Place {
    /// In the same object: the field is an inlined message.
    Inlined(&'static Message),
    /// In the member of this name, which is a message.
    Member(&'static Message, &'static str),
    /// At this index of the list of this name. The list contains messages.
    Item(&'static Message, &'static str, usize),
    /// Anywhere: no message is in it. Maps in templates never contain messages.
    Value,
    /// Nowhere: the schema table lacks the field.
    Unknown,
}

fn place(message: &'static Message, number: u32, items: &mut Items) -> Place {
    let Some(field) = message.fields().iter().find(|field| field.number == number) else {
        return Place::Unknown;
    };
    match (field.ty, field.shape) {
        (schema::Type::Message(inner), _) if field.inlined().is_some() => Place::Inlined(inner),
        (schema::Type::Message(inner), Shape::Single) => Place::Member(inner, field.name),
        (schema::Type::Message(inner), Shape::List) => {
            let next = items.entry(number).or_default();
            *next += 1;
            Place::Item(inner, field.name, *next - 1)
        }
        _ => Place::Value,
    }
}

fn read(field: &layout::Field, found: Field<'_>, members: &mut Map<String, Value>) -> Result<(), WireError> {
    let Some(name) = field.json else { return Ok(()) };
    let value = read_value(element(&field.ty), found)?;
    match (&field.ty, members.get_mut(name)) {
        (Type::Slice(_), Some(Value::Array(items))) => items.push(value),
        (Type::Slice(_), _) => _ = members.insert(name.to_owned(), json!([value])),
        _ => _ = members.insert(name.to_owned(), value),
    }
    Ok(())
}

fn read_value(ty: &Type, found: Field<'_>) -> Result<Value, WireError> {
    Ok(match ty {
        Type::String => found.text()?.into(),
        Type::Bool => found.bool()?.into(),
        Type::Int => found.int64()?.into(),
        Type::Struct(of) => {
            // Go leaves out none of the members of the new structs.
            let fields = &structs().at(*of).fields;
            let zeros = fields.iter().filter_map(|field| Some((field.json?.to_owned(), zero(&field.ty))));
            let (mut members, mut parts) = (zeros.collect(), found.message()?);
            while let Some(part) = parts.field()? {
                if let Some(field) = fields.iter().find(|field| field.number == Some(part.number)) {
                    read(field, part, &mut members)?;
                }
            }
            members.into()
        }
        _ => return Err(WireError::Mismatch(found.number)),
    })
}

/// The JSON of a field that is not set. Protobuf has those that are not null here even if they are zero.
fn zero(ty: &Type) -> Value {
    match ty {
        Type::String => "".into(),
        Type::Bool => false.into(),
        Type::Int => 0.into(),
        _ => Value::Null,
    }
}

fn write(field: &layout::Field, members: &Map<String, Value>, out: &mut Writer) -> Result<(), Error> {
    let (Some(name), Some(number)) = (field.json, field.number) else { return Ok(()) };
    let zero = zero(&field.ty);
    let value = members.get(name).filter(|value| !value.is_null()).unwrap_or(&zero);
    match (&field.ty, value) {
        (_, Value::Null) => Ok(()),
        (Type::Slice(of), list) => {
            let mut items = Vec::<Value>::deserialize(list)?.into_iter();
            items.try_for_each(|item| write_value(element(of), number, &item, out))
        }
        (ty, value) => write_value(element(ty), number, value, out),
    }
}

fn write_value(ty: &Type, number: u32, value: &Value, out: &mut Writer) -> Result<(), Error> {
    match ty {
        Type::String => out.text(number, <&str>::deserialize(value)?),
        Type::Bool => out.bool(number, bool::deserialize(value)?),
        Type::Int => out.int64(number, i64::deserialize(value)?),
        Type::Struct(of) => {
            let (members, mut inner) = (Map::deserialize(value)?, Writer::new());
            structs().at(*of).fields.iter().try_for_each(|field| write(field, &members, &mut inner))?;
            out.bytes(number, &inner.into_bytes());
        }
        _ => return Err(WireError::Mismatch(number).into()),
    }
    Ok(())
}
