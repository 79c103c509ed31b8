//! The types of a projection's fields, with a decoder for each encoding.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

use steersman_api::condition::ConditionStatus;
use steersman_api::meta::LabelMap;
use steersman_api::{ArcStr, Quantity, Time, Uid};

use super::message::{Message, NotAMessage};
use super::size::{pair_bytes, text_bytes};
use super::{Field, Key, Nullable, WireError};
use crate::intern::{Interned, Interner, Repeated};

/// A value that can be decoded from both encodings.
///
/// Both decoders must give the same value for the same object. A field that is absent, or `null` in JSON, has the default
/// value, as in Go.
pub trait FieldValue: Default {
    /// The fields that the value looks at if it is a [message](Self::as_message), as a mask of their [`field_bit`]s. The others need not be
    /// handed to it.
    const FIELDS: u64 = u64::MAX;

    /// Takes in one occurrence of the field. Of a scalar the last occurrence counts; those of a list are its entries; those of
    /// a message are merged.
    ///
    /// # Errors
    /// The field has another type than the declared one.
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError>;

    /// Reads the value of a JSON member. Not called for `null`.
    ///
    /// # Errors
    /// The value has another type than the declared one.
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;

    /// This value as a message that takes in its fields one by one. `None` if it needs its field as a whole.
    fn as_message(&mut self) -> Option<&mut impl Message> {
        None::<&mut NotAMessage>
    }

    /// Called once, when the whole object of a group of this type has been decoded. A value that is large while it grows becomes small
    /// here.
    fn settle(&mut self) {}

    /// An estimate of the memory that this value holds beside itself, in bytes. Types that hold next to nothing need not
    /// implement it.
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// The bit of a protobuf field in [`FieldValue::FIELDS`]. The fields from number 63 on share one.
pub const fn field_bit(number: u32) -> u64 {
    1 << if number < 63 { number } else { 63 }
}

/// Implements [`FieldValue`] for scalars that serde can read from JSON.
macro_rules! scalar {
    ($($type:ty => |$field:ident| $read:expr;)*) => { $(
        impl FieldValue for $type {
            fn merge(&mut self, $field: Field<'_>) -> Result<(), WireError> {
                *self = $read;
                Ok(())
            }
            fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::deserialize(deserializer)
            }
        }
    )* };
}

scalar! {
    bool => |field| field.bool()?;
    i32 => |field| field.int32()?;
    i64 => |field| field.int64()?;
    ConditionStatus => |field| ConditionStatus::from(field.text()?);
}

/// Implements [`FieldValue`] for strings, each with the function that stores it, and the one that estimates its memory.
macro_rules! text {
    ($($type:ty => $keep:expr, $bytes:expr;)*) => { $(
        impl FieldValue for $type {
            fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
                *self = $keep(field.text()?);
                Ok(())
            }
            fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Key::deserialize(deserializer).map(|text| $keep(&*text))
            }
            fn heap_bytes(&self) -> usize {
                $bytes(self)
            }
        }
    )* };
}

text! {
    ArcStr => ArcStr::from, text_bytes;
    Interned => Interned::from, interned_bytes;
    Repeated => Repeated::from, repeated_bytes;
    Uid => Uid::from, uid_bytes;
}

fn interned_bytes(text: &Interned) -> usize {
    text_bytes(text.as_arc())
}

fn repeated_bytes(text: &Repeated) -> usize {
    text_bytes(text.as_arc())
}

/// API servers assign UUIDs, which a [`Uid`] holds in itself.
fn uid_bytes(_: &Uid) -> usize {
    0
}

/// A pointer in Go: absent differs from zero.
impl<T: FieldValue> FieldValue for Option<T> {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.get_or_insert_default().merge(field)
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::from_json(deserializer).map(Some)
    }
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, T::heap_bytes)
    }
}

impl<T: FieldValue> FieldValue for Box<T> {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        (**self).merge(field)
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::from_json(deserializer).map(Box::new)
    }
    fn heap_bytes(&self) -> usize {
        size_of::<T>() + T::heap_bytes(self)
    }
}

/// A repeated field. Short lists, which are the most, have no spare capacity.
impl<T: FieldValue> FieldValue for Vec<T> {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut item = T::default();
        item.merge(field)?;
        push_tight(self, item);
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(Vec<T>);
        impl<'de, T: FieldValue> Visitor<'de> for List<T> {
            type Value = Vec<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Vec<T>, A::Error> {
                while let Some(item) = seq.next_element_seed(Nullable::<T>::default())? {
                    push_tight(&mut self.0, item);
                }
                Ok(self.0)
            }
        }
        deserializer.deserialize_seq(List(Vec::new()))
    }
    fn heap_bytes(&self) -> usize {
        self.capacity() * size_of::<T>() + self.iter().map(T::heap_bytes).sum::<usize>()
    }
}

fn push_tight<T>(list: &mut Vec<T>, item: T) {
    if list.len() < 8 {
        list.reserve_exact(1);
    }
    list.push(item);
}

/// A `map<string, string>`. Shares keys, and values from their second occurrence on.
impl FieldValue for LabelMap {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let (key, value) = map_entry(field)?;
        self.insert(key, value);
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = LabelMap;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LabelMap, A::Error> {
                let mut pairs = Vec::new();
                while let Some(key) = map.next_key::<Key<'de>>()? {
                    let value = map.next_value::<Option<Key<'de>>>()?;
                    pairs.push(shared_pair(&key, value.as_deref().unwrap_or_default()));
                }
                Ok(pairs.into_iter().collect())
            }
        }
        deserializer.deserialize_map(Map)
    }
    fn heap_bytes(&self) -> usize {
        pair_bytes(self.iter())
    }
}

/// One entry of a `map<string, string>`.
pub(super) fn map_entry(field: Field<'_>) -> Result<(ArcStr, ArcStr), WireError> {
    let (mut key, mut value) = ("", "");
    let mut entry = field.message()?;
    while let Some(field) = entry.field()? {
        match field.number {
            1 => key = field.text()?,
            2 => value = field.text()?,
            _ => {}
        }
    }
    Ok(shared_pair(key, value))
}

fn shared_pair(key: &str, value: &str) -> (ArcStr, ArcStr) {
    (Interner::global().share(key), Interner::global().share_if_repeated(value))
}

/// A `metav1.Time`: seconds and nanoseconds in protobuf, RFC 3339 in JSON.
///
/// For an unset timestamp that is required, Go writes year 1 in protobuf and `null` in JSON. Both give `None`.
impl FieldValue for Option<Time> {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut message = field.message()?;
        let mut seconds = 0;
        let mut present = false;
        while let Some(field) = message.field()? {
            if field.number == 1 {
                seconds = field.int64()?;
                present = true;
            }
        }
        *self = (present && seconds != GO_ZERO).then(|| Time::from_seconds(seconds));
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Time::deserialize(deserializer).map(|time| (time.seconds() != GO_ZERO).then_some(time))
    }
}

/// Go's zero time, the beginning of year 1, in seconds since 1970.
const GO_ZERO: i64 = -62_135_596_800;

/// A `resource.Quantity`. In protobuf it is a message that holds the string.
impl FieldValue for Quantity {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut message = field.message()?;
        while let Some(inner) = message.field()? {
            if inner.number == 1 {
                *self = inner.text()?.parse().map_err(|_| WireError::Mismatch(field.number))?;
            }
        }
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

/// An `intstr.IntOrString`: a port by number or by name, or a count or a percentage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A name, or a percentage.
    String(ArcStr),
}

impl Default for IntOrString {
    fn default() -> Self {
        Self::Int(0)
    }
}

impl FieldValue for IntOrString {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let mut message = field.message()?;
        let (mut kind, mut number, mut text) = (0, 0, "");
        while let Some(field) = message.field()? {
            match field.number {
                1 => kind = field.int64()?,
                2 => number = field.int32()?,
                3 => text = field.text()?,
                _ => {}
            }
        }
        *self = if kind == 0 { Self::Int(number) } else { Self::String(text.into()) };
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = IntOrString;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a string")
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<IntOrString, E> {
                number.try_into().map(IntOrString::Int).map_err(E::custom)
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<IntOrString, E> {
                number.try_into().map(IntOrString::Int).map_err(E::custom)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<IntOrString, E> {
                Ok(IntOrString::String(text.into()))
            }
        }
        deserializer.deserialize_any(Either)
    }
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Int(_) => 0,
            Self::String(text) => text_bytes(text),
        }
    }
}
