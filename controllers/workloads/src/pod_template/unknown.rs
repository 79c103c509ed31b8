//! Fields of a message that the schema table does not have.

use steersman_api::schema::{Message, Shape, Type};
use steersman_api::wire::{Field, Reader, Value, WireError};

use super::fnv::Fnv1a;
use super::layout::Layout;
use super::newer;

/// Whether a message has a field that neither the schema table nor the layout has, at any depth.
///
/// # Errors
/// The bytes are not valid protobuf.
pub(super) fn has_unknown_fields(
    message: &'static Message,
    bytes: &[u8],
    layout: Layout,
) -> Result<bool, WireError> {
    let mut found = false;
    visit(message, bytes, &mut |of, field| found |= !newer::is_known(layout, of, field))?;
    Ok(found)
}

/// Adds the fields that the schema table does not have to a hash.
///
/// # Errors
/// The bytes are not valid protobuf.
pub(super) fn write(message: &'static Message, bytes: &[u8], hasher: &mut Fnv1a) -> Result<(), WireError> {
    visit(message, bytes, &mut |_, field| {
        hasher.bytes(&field.number.to_le_bytes());
        match field.value {
            Value::Varint(number) | Value::Fixed64(number) => hasher.bytes(&number.to_le_bytes()),
            Value::Fixed32(number) => hasher.bytes(&number.to_le_bytes()),
            Value::Bytes(bytes) => hasher.bytes(bytes),
        }
    })
}

fn visit(
    message: &'static Message,
    bytes: &[u8],
    see: &mut dyn FnMut(&'static Message, Field<'_>),
) -> Result<(), WireError> {
    let mut reader = Reader::new(bytes);
    while let Some(found) = reader.field()? {
        let known = message.fields().iter().find(|field| field.number == found.number);
        match known {
            None => see(message, found),
            Some(field) if field.shape == Shape::Map => {}
            Some(field) => {
                if let (Type::Message(inner), Value::Bytes(bytes)) = (field.ty, found.value) {
                    visit(inner, bytes, see)?;
                }
            }
        }
    }
    Ok(())
}
