//! Equality of messages by meaning.

use std::borrow::Cow;
use std::collections::BTreeMap;

use steersman_api::Quantity;
use steersman_api::schema::{Message, Shape, Type};
use steersman_api::wire::{Field, Reader, Value, WireError, Writer};

/// Whether two messages are equal by meaning, as upstream's `equality.Semantic.DeepEqual` of what Go decodes from them: a list or
/// map that is absent equals an empty one, quantities are equal if their amounts are. Fields that the schema table does not
/// have must be equal byte for byte.
///
/// Compares bytes first, and descends only where these differ: what the API server encodes in the same way costs little.
///
/// # Errors
/// A message is not valid protobuf.
pub(super) fn messages(message: &'static Message, a: &[u8], b: &[u8]) -> Result<bool, WireError> {
    if a == b {
        return Ok(true);
    }
    let (a, b) = (sorted(a)?, sorted(b)?);
    let (mut a, mut b) = (a.as_slice(), b.as_slice());
    while let Some(number) = a.iter().chain(b).map(|field| field.number).min() {
        let (of_a, of_b) = (take(&mut a, number), take(&mut b, number));
        if !fields(message, number, of_a, of_b)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A pod template without this label. If no label is left, there is no entry, which equals an absent map.
///
/// # Errors
/// The template is not valid protobuf.
pub(super) fn without_label<'a>(template: &'a [u8], label: &str) -> Result<Cow<'a, [u8]>, WireError> {
    /// The numbers of a template's metadata and of the labels in it.
    const METADATA: u32 = 1;
    const LABELS: u32 = 11;
    let (mut rest, mut metadata, mut removed) = (Writer::new(), Writer::new(), false);
    let mut reader = Reader::new(template);
    while let Some(part) = reader.field()? {
        if part.number != METADATA {
            rest.field(part);
            continue;
        }
        let mut fields = part.message()?;
        while let Some(field) = fields.field()? {
            if field.number == LABELS && Entry::of(field)?.key == label.as_bytes() {
                removed = true;
            } else {
                metadata.field(field);
            }
        }
    }
    if !removed {
        return Ok(Cow::Borrowed(template));
    }
    rest.bytes(METADATA, &metadata.into_bytes());
    Ok(Cow::Owned(rest.into_bytes()))
}

/// The fields of a message, sorted by number. Fields of one number keep their order.
fn sorted(message: &[u8]) -> Result<Vec<Field<'_>>, WireError> {
    let (mut fields, mut reader) = (Vec::new(), Reader::new(message));
    while let Some(field) = reader.field()? {
        fields.push(field);
    }
    fields.sort_by_key(|field| field.number);
    Ok(fields)
}

/// Removes the fields of this number from the beginning of sorted fields.
fn take<'a, 'f>(fields: &mut &'f [Field<'a>], number: u32) -> &'f [Field<'a>] {
    let (taken, rest) = fields.split_at(fields.partition_point(|field| field.number == number));
    *fields = rest;
    taken
}

fn fields(
    message: &'static Message,
    number: u32,
    a: &[Field<'_>],
    b: &[Field<'_>],
) -> Result<bool, WireError> {
    let Some(field) = message.fields().iter().find(|field| field.number == number) else {
        return Ok(a == b);
    };
    match field.shape {
        Shape::Single if field.pointer && a.is_empty() != b.is_empty() => Ok(false),
        Shape::Single => match field.ty {
            Type::Message(inner) => messages(inner, &whole(a)?, &whole(b)?),
            ty => values(ty, a.last().map(|field| field.value), b.last().map(|field| field.value)),
        },
        Shape::List => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b) {
                if !values(field.ty, Some(a.value), Some(b.value))? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Shape::Map => {
            let (a, b) = (entries(a)?, entries(b)?);
            if a.len() != b.len() {
                return Ok(false);
            }
            for ((key, a), (other, b)) in a.iter().zip(&b) {
                if key != other || !values(field.ty, *a, *b)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// An embedded message. If it occurs several times, the message is the concatenation of all.
fn whole<'a>(occurrences: &[Field<'a>]) -> Result<Cow<'a, [u8]>, WireError> {
    Ok(match occurrences {
        [] => Cow::Borrowed(&[]),
        [only] => Cow::Borrowed(only.bytes()?),
        several => {
            let parts: Result<Vec<&[u8]>, _> = several.iter().map(|part| part.bytes()).collect();
            Cow::Owned(parts?.concat())
        }
    })
}

/// An entry of a map.
struct Entry<'a> {
    key: &'a [u8],
    value: Option<Value<'a>>,
}

impl<'a> Entry<'a> {
    fn of(field: Field<'a>) -> Result<Self, WireError> {
        let (mut entry, mut parts) = (Self { key: &[], value: None }, field.message()?);
        while let Some(part) = parts.field()? {
            match part.number {
                1 => entry.key = part.bytes()?,
                2 => entry.value = Some(part.value),
                _ => {}
            }
        }
        Ok(entry)
    }
}

fn entries<'a>(fields: &[Field<'a>]) -> Result<BTreeMap<&'a [u8], Option<Value<'a>>>, WireError> {
    fields.iter().map(|field| Entry::of(*field).map(|entry| (entry.key, entry.value))).collect()
}

/// Whether two values are equal. An absent value is zero or empty: protobuf has no other form of a Go field that is not a pointer.
fn values(ty: Type, a: Option<Value<'_>>, b: Option<Value<'_>>) -> Result<bool, WireError> {
    if a == b {
        return Ok(true);
    }
    match ty {
        Type::Bool | Type::Int64 => Ok(number(a) == number(b)),
        Type::Int32 => Ok(number(a).int32()? == number(b).int32()?),
        Type::Double => Ok(a.unwrap_or(Value::Fixed64(0)) == b.unwrap_or(Value::Fixed64(0))),
        Type::Message(inner) => messages(inner, of(a).bytes()?, of(b).bytes()?),
        Type::Quantity => Ok(amount(of(a).bytes()?)? == amount(of(b).bytes()?)?),
        // Upstream ignores the fraction of a time.
        Type::Time => Ok(int_of(of(a).bytes()?, 1)? == int_of(of(b).bytes()?, 1)?),
        Type::IntOrString => {
            let (a, b) = (of(a).bytes()?, of(b).bytes()?);
            let same = |part| Ok::<_, WireError>(int_of(a, part)? == int_of(b, part)?);
            Ok(same(1)? && same(2)? && text_of(a, 3)? == text_of(b, 3)?)
        }
        _ => Ok(of(a) == of(b)),
    }
}

/// A number; 0 if absent.
fn number(value: Option<Value<'_>>) -> Field<'_> {
    Field { number: 0, value: value.unwrap_or(Value::Varint(0)) }
}

/// Bytes; none if absent.
fn of(value: Option<Value<'_>>) -> Field<'_> {
    Field { number: 0, value: value.unwrap_or(Value::Bytes(&[])) }
}

/// The number in field `number` of a message, or 0.
fn int_of(message: &[u8], number: u32) -> Result<i64, WireError> {
    let (mut found, mut reader) = (0, Reader::new(message));
    while let Some(field) = reader.field()? {
        if field.number == number {
            found = field.int64()?;
        }
    }
    Ok(found)
}

/// The text in field `number` of a message, or an empty one.
fn text_of(message: &[u8], number: u32) -> Result<&str, WireError> {
    let (mut found, mut reader) = ("", Reader::new(message));
    while let Some(field) = reader.field()? {
        if field.number == number {
            found = field.text()?;
        }
    }
    Ok(found)
}

/// The amount of a quantity's message, or its text if that is no quantity.
fn amount(message: &[u8]) -> Result<Result<Quantity, &str>, WireError> {
    let text = text_of(message, 1)?;
    if text.is_empty() {
        return Ok(Ok(Quantity::default()));
    }
    Ok(text.parse().map_err(|_| text))
}
