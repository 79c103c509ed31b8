//! The writer of protobuf messages.

use super::{Field, Value};

/// Writes one message, its fields in the order of the calls. Writes zero and empty values too, since upstream's
/// generated code writes every field that is not a pointer.
///
/// A writer can append to an encoded message of the same type: readers take the last value of a scalar, append to lists
/// and merge embedded messages. Controllers complete a cached pod template this way, without decoding it.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Starts an empty message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Continues an encoded message of the same type.
    pub fn onto(message: &[u8]) -> Self {
        Self { bytes: message.to_vec() }
    }

    /// Returns the encoded message.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes a string field.
    pub fn text(&mut self, number: u32, text: &str) {
        self.bytes(number, text.as_bytes());
    }

    /// Writes a string field, unless the text is empty.
    pub fn text_unless_empty(&mut self, number: u32, text: &str) {
        if !text.is_empty() {
            self.text(number, text);
        }
    }

    /// Writes a bytes field, or an embedded message that is already encoded.
    pub fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.tag(number, 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes an int32, int64 or enum field.
    pub fn int64(&mut self, number: u32, value: i64) {
        self.tag(number, 0);
        self.varint(value.cast_unsigned());
    }

    /// Writes a bool field.
    pub fn bool(&mut self, number: u32, value: bool) {
        self.int64(number, i64::from(value));
    }

    /// Copies a field from a reader.
    pub fn field(&mut self, field: Field<'_>) {
        match field.value {
            Value::Varint(number) => {
                self.tag(field.number, 0);
                self.varint(number);
            }
            Value::Fixed64(bits) => {
                self.tag(field.number, 1);
                self.bytes.extend_from_slice(&bits.to_le_bytes());
            }
            Value::Bytes(bytes) => self.bytes(field.number, bytes),
            Value::Fixed32(bits) => {
                self.tag(field.number, 5);
                self.bytes.extend_from_slice(&bits.to_le_bytes());
            }
        }
    }

    /// Writes a double field.
    pub fn double(&mut self, number: u32, value: f64) {
        self.tag(number, 1);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes an embedded message, whose fields `fill` writes.
    pub fn message(&mut self, number: u32, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::new();
        fill(&mut inner);
        self.bytes(number, &inner.bytes);
    }

    /// Writes one entry of a `map<string, string>` field.
    pub fn entry(&mut self, number: u32, key: &str, value: &str) {
        self.message(number, |entry| {
            entry.text(1, key);
            entry.text(2, value);
        });
    }

    fn tag(&mut self, number: u32, wire_type: u64) {
        self.varint(u64::from(number) << 3 | wire_type);
    }

    #[allow(clippy::cast_possible_truncation)]
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}
