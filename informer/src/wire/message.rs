//! Messages that take in their fields one by one.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};

use super::{Field, Key, Reader, WireError};

/// A value that is read from a message (in JSON: from an object) and takes in its fields one by one.
///
/// Several such values can look into one message while it is read once: [`kind!`](crate::kind) hands each field to all
/// groups that look into it. [`projection!`](crate::projection) implements this trait.
pub trait Message {
    /// Takes in one field of the protobuf message. Ignores fields that are not declared.
    ///
    /// # Errors
    /// The field has another type than the declared one.
    fn merge_field(&mut self, field: Field<'_>) -> Result<(), WireError>;

    /// Whether the JSON member of this name is declared.
    fn has_member(&self, name: &str) -> bool;

    /// Takes in the JSON member of this name. Ignores members that are not declared.
    ///
    /// # Errors
    /// The value has another type than the declared one.
    fn merge_member<'de, D: Deserializer<'de>>(&mut self, name: &str, value: D) -> Result<(), D::Error>;
}

/// What [`FieldValue::as_message`](super::FieldValue::as_message) names for values that are not messages. It has no values.
pub enum NotAMessage {}

impl Message for NotAMessage {
    fn merge_field(&mut self, _: Field<'_>) -> Result<(), WireError> {
        match *self {}
    }
    fn has_member(&self, _: &str) -> bool {
        match *self {}
    }
    fn merge_member<'de, D: Deserializer<'de>>(&mut self, _: &str, _: D) -> Result<(), D::Error> {
        match *self {}
    }
}

/// Hands every field of an encoded message to `message`.
///
/// # Errors
/// The bytes are not protobuf, or a field has another type than the declared one.
pub fn merge_message(message: &mut impl Message, mut encoded: Reader<'_>) -> Result<(), WireError> {
    while let Some(field) = encoded.field()? {
        message.merge_field(field)?;
    }
    Ok(())
}

/// Reads a message from a JSON object.
///
/// # Errors
/// The text is not an object, or a member has another type than the declared one.
pub fn message_from_json<'de, M, D>(deserializer: D) -> Result<M, D::Error>
where
    M: Message + Default,
    D: Deserializer<'de>,
{
    struct Members<M>(PhantomData<M>);
    impl<'de, M: Message + Default> Visitor<'de> for Members<M> {
        type Value = M;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<M, A::Error> {
            let mut message = M::default();
            while let Some(name) = map.next_key::<Key<'de>>()? {
                map.next_value_seed(Member { message: &mut message, name: &name })?;
            }
            Ok(message)
        }
    }
    deserializer.deserialize_map(Members(PhantomData))
}

/// Reads the value of one member into a message.
struct Member<'a, M> {
    message: &'a mut M,
    name: &'a str,
}

impl<'de, M: Message> DeserializeSeed<'de> for Member<'_, M> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        self.message.merge_member(self.name, value)
    }
}
