//! Parts of an object that are kept as they came, understood by nobody here.

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;

use super::{Field, FieldValue, WireError};

/// A message kept in the encoding it came in, so that fields newer than this program survive: a pod template, say.
#[derive(Clone, Debug, Default)]
pub enum Opaque {
    /// Absent.
    #[default]
    None,
    /// The bytes of the message, without an envelope.
    Protobuf(Box<[u8]>),
    /// Its text.
    Json(Box<RawValue>),
}

impl Opaque {
    /// How many bytes it holds.
    pub fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Protobuf(bytes) => bytes.len(),
            Self::Json(text) => text.get().len(),
        }
    }

    /// Whether it was absent, or empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FieldValue for Opaque {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let more = field.bytes()?;
        // Two occurrences of a message merge, and that is what their concatenation says.
        *self = Self::Protobuf(match self {
            Self::Protobuf(bytes) => [bytes, more].concat().into(),
            Self::None | Self::Json(_) => more.into(),
        });
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::Json)
    }
}
