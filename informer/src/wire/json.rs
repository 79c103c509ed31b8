//! Parts of the JSON decoders.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, Visitor};

use super::FieldValue;

/// A string, such as a member's name. Borrowed from the input unless it has an escape.
#[derive(PartialEq, Eq, Hash)]
pub struct Key<'de>(Cow<'de, str>);

impl std::borrow::Borrow<str> for Key<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl std::ops::Deref for Key<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// Reads a field's value; `null` gives the default, as in Go.
pub struct Nullable<T>(PhantomData<T>);

impl<T> Default for Nullable<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: FieldValue> DeserializeSeed<'de> for Nullable<T> {
    type Value = T;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, T: FieldValue> Visitor<'de> for Nullable<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }
    fn visit_none<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }
    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::from_json(deserializer)
    }
}

/// Reads a value of a field's type; `null` gives the type's default, as in Go.
///
/// # Errors
/// The value has another type.
pub fn nullable<'de, T: FieldValue, D: Deserializer<'de>>(value: D) -> Result<T, D::Error> {
    Nullable::default().deserialize(value)
}

/// Skips a value.
///
/// # Errors
/// The text is not JSON.
pub fn ignore<'de, D: Deserializer<'de>>(value: D) -> Result<(), D::Error> {
    IgnoredAny::deserialize(value).map(drop)
}

/// Reads one member of an object that was split into members before.
///
/// # Errors
/// The text has another type.
pub fn member<T: FieldValue>(raw: &serde_json::value::RawValue) -> serde_json::Result<T> {
    nullable(&mut serde_json::Deserializer::from_str(raw.get()))
}
