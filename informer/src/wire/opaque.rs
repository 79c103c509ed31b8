//! Parts of an object that are kept in their encoded form.

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;

use super::{Field, FieldValue, WireError};

/// A message, such as a pod template, in the encoding in which it came, so that fields newer than this program survive.
#[derive(Clone, Debug, Default)]
pub enum Opaque {
    /// Absent.
    #[default]
    None,
    /// The message in protobuf, without an envelope.
    Protobuf(Box<[u8]>),
    /// The message in JSON.
    Json(Box<RawValue>),
}

impl Opaque {
    /// The length of the encoded message in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Protobuf(bytes) => bytes.len(),
            Self::Json(text) => text.get().len(),
        }
    }

    /// Whether the message is absent or empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Compares the encoded forms: two encodings of one message differ.
impl PartialEq for Opaque {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Protobuf(one), Self::Protobuf(other)) => one == other,
            (Self::Json(one), Self::Json(other)) => one.get() == other.get(),
            (Self::None | Self::Protobuf(_) | Self::Json(_), _) => false,
        }
    }
}

impl FieldValue for Opaque {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let more = field.bytes()?;
        // Protobuf merges the occurrences of a message, and their concatenation decodes to the merged message.
        *self = Self::Protobuf(match self {
            Self::Protobuf(bytes) => [bytes, more].concat().into(),
            Self::None | Self::Json(_) => more.into(),
        });
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::Json)
    }
    fn heap_bytes(&self) -> usize {
        self.len()
    }
}
