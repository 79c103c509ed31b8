//! The pull reader of protobuf messages.

/// The error for bytes that are not a valid protobuf message. The caller must treat the object as unreadable, not as
/// absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The message ends within a field.
    #[error("the message ends within a field")]
    Truncated,
    /// A varint has more than ten bytes.
    #[error("a varint is longer than ten bytes")]
    Overlong,
    /// A field has the number zero, or a wire type that Kubernetes does not use (groups).
    #[error("field {0} has an unknown wire type")]
    BadTag(u64),
    /// A field has another wire type than its declaration.
    #[error("field {0} has another wire type than its declaration")]
    Mismatch(u32),
    /// A text is not UTF-8.
    #[error("field {0} is not UTF-8")]
    NotUtf8(u32),
    /// The body does not begin with `k8s\0`.
    #[error("the object has no protobuf envelope")]
    NoEnvelope,
}

/// The encoded value of a field, by wire type. Each variant names the protobuf types that it encodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// int32, int64, uint64, bool, enum.
    Varint(u64),
    /// double, fixed64.
    Fixed64(u64),
    /// string, bytes, message, packed numbers.
    Bytes(&'a [u8]),
    /// float, fixed32.
    Fixed32(u32),
}

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Field<'a> {
    /// The field's number.
    pub number: u32,
    /// The field's encoded value.
    pub value: Value<'a>,
}

impl<'a> Field<'a> {
    /// Returns the value of a `bytes` field.
    ///
    /// # Errors
    /// The value is a number.
    pub fn bytes(self) -> Result<&'a [u8], WireError> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(WireError::Mismatch(self.number)),
        }
    }

    /// Returns the value of a `string` field.
    ///
    /// # Errors
    /// The value is a number, or not UTF-8.
    pub fn text(self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError::NotUtf8(self.number))
    }

    /// Returns a reader of an embedded message.
    ///
    /// # Errors
    /// The value is a number.
    pub fn message(self) -> Result<Reader<'a>, WireError> {
        self.bytes().map(Reader::new)
    }

    /// Returns the value of a `uint64` field.
    ///
    /// # Errors
    /// The value is not a varint.
    pub fn varint(self) -> Result<u64, WireError> {
        match self.value {
            Value::Varint(number) => Ok(number),
            _ => Err(WireError::Mismatch(self.number)),
        }
    }

    /// Returns the value of an `int64` field. Protobuf encodes negative numbers as two's complement.
    ///
    /// # Errors
    /// The value is not a varint.
    pub fn int64(self) -> Result<i64, WireError> {
        self.varint().map(u64::cast_signed)
    }

    /// Returns the value of an `int32` field: the low 32 bits of the varint, as in every implementation of protobuf.
    ///
    /// # Errors
    /// The value is not a varint.
    #[allow(clippy::cast_possible_truncation)]
    pub fn int32(self) -> Result<i32, WireError> {
        self.int64().map(|number| number as i32)
    }

    /// Returns the value of a `bool` field.
    ///
    /// # Errors
    /// The value is not a varint.
    pub fn bool(self) -> Result<bool, WireError> {
        self.varint().map(|number| number != 0)
    }
}

/// Reads the fields of one message in the order of the bytes.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Makes a reader of the bytes of one whole message.
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Returns the next field, or `None` at the end.
    ///
    /// # Errors
    /// The next bytes are not a protobuf field. Fields that were read before remain valid.
    pub fn field(&mut self) -> Result<Option<Field<'a>>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        #[cfg(feature = "testing")]
        FIELDS_READ.set(FIELDS_READ.get() + 1);
        let tag = self.take_varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|n| *n != 0).ok_or(WireError::BadTag(tag >> 3))?;
        let value = match tag & 7 {
            0 => Value::Varint(self.take_varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.take_array()?)),
            2 => {
                let len = self.take_varint()?;
                Value::Bytes(self.take(usize::try_from(len).map_err(|_| WireError::Truncated)?)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.take_array()?)),
            _ => return Err(WireError::BadTag(tag >> 3)),
        };
        Ok(Some(Field { number, value }))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn take_varint(&mut self) -> Result<u64, WireError> {
        let mut number = 0;
        for at in 0..10 {
            let byte = *self.rest.get(at).ok_or(WireError::Truncated)?;
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(number);
            }
        }
        Err(WireError::Overlong)
    }
}

#[cfg(feature = "testing")]
std::thread_local! {
    static FIELDS_READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The number of fields that all readers of this thread have read so far. Needs the feature `testing`.
#[cfg(feature = "testing")]
pub fn fields_read() -> usize {
    FIELDS_READ.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Writer;
    use proptest::prelude::*;

    #[test]
    fn fields_come_in_the_order_they_were_written() {
        let mut writer = Writer::new();
        writer.text(1, "a");
        writer.int64(2, -1);
        writer.message(3, |inner| inner.bool(1, true));
        let bytes = writer.into_bytes();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.field().unwrap().unwrap().text(), Ok("a"));
        assert_eq!(reader.field().unwrap().unwrap().int64(), Ok(-1));
        let mut inner = reader.field().unwrap().unwrap().message().unwrap();
        assert_eq!(inner.field().unwrap().unwrap().bool(), Ok(true));
        assert_eq!(reader.field(), Ok(None));
    }

    #[test]
    fn broken_bytes_are_told_apart() {
        for (bytes, error) in [
            (&[0x0a, 5, 1][..], WireError::Truncated),
            (&[0x08], WireError::Truncated),
            (&[0x0b], WireError::BadTag(1)),
            (&[0x00, 0], WireError::BadTag(0)),
            (&[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1], WireError::Overlong),
        ] {
            assert_eq!(Reader::new(bytes).field(), Err(error));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic_or_loop(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = Reader::new(&bytes);
            let mut fields = 0;
            while let Ok(Some(_)) = reader.field() {
                fields += 1;
            }
            prop_assert!(fields <= bytes.len());
        }
    }
}
