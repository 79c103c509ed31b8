//! What a projection's field can hold, and how it is read in either encoding.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

use steersman_api::condition::ConditionStatus;
use steersman_api::meta::Labels;
use steersman_api::{ArcStr, Quantity, Time, Uid};

use super::message::{Message, NotAMessage};
use super::{Field, Key, Nullable, WireError};
use crate::intern::{Interned, Interner};

/// A value that both encodings can fill.
///
/// Both must give the same value for the same object; a field that is absent, or `null` in JSON, leaves the default, which
/// is what Go makes of it.
pub trait FieldValue: Default {
    /// Takes in one occurrence of the field: the last one of a scalar counts, those of a list are its entries, those of
    /// a message are merged.
    ///
    /// # Errors
    /// Bytes of another type than the declared one.
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError>;

    /// The value of a JSON member; never `null`.
    ///
    /// # Errors
    /// Text of another type than the declared one.
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;

    /// This value as a message that takes in its fields one by one. `None` if it needs its field as a whole.
    fn as_message(&mut self) -> Option<&mut impl Message> {
        None::<&mut NotAMessage>
    }
}

/// Scalars whose JSON form serde knows.
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

/// Texts, which differ in how they are kept.
macro_rules! text {
    ($($type:ty => $keep:expr;)*) => { $(
        impl FieldValue for $type {
            fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
                *self = $keep(field.text()?);
                Ok(())
            }
            fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Key::deserialize(deserializer).map(|text| $keep(&*text))
            }
        }
    )* };
}

text! {
    ArcStr => ArcStr::from;
    Interned => Interned::from;
    Uid => Uid::from;
}

/// A pointer in Go: absent is another thing than zero.
impl<T: FieldValue> FieldValue for Option<T> {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.get_or_insert_default().merge(field)
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::from_json(deserializer).map(Some)
    }
}

impl<T: FieldValue> FieldValue for Box<T> {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        (**self).merge(field)
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::from_json(deserializer).map(Box::new)
    }
}

/// A repeated field. Short lists, which are most, are kept without slack.
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
}

fn push_tight<T>(list: &mut Vec<T>, item: T) {
    if list.len() < 8 {
        list.reserve_exact(1);
    }
    list.push(item);
}

/// A `map<string, string>`. Keys are shared, values too once they have come twice.
impl FieldValue for Labels {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let (key, value) = map_entry(field)?;
        self.insert(key, value);
        Ok(())
    }
    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Labels;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
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
/// The zero time that Go writes for an unset, required stamp is year 1 in protobuf and `null` in JSON: it is `None` in both.
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

/// Seconds from 1970 to the beginning of year 1, Go's zero time.
const GO_ZERO: i64 = -62_135_596_800;

/// A `resource.Quantity`: a message around its text in protobuf.
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

/// A port by number or by name, or a count or a percentage.
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
                f.write_str("a number or a text")
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
}
