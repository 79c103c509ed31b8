//! Decodes one annotation out of an object's metadata.

use std::fmt;

use steersman_informer::serde::Deserializer;
use steersman_informer::serde::de::{IgnoredAny, MapAccess, Visitor};
use steersman_informer::wire::{Field, Key, WireError};

/// The value of the annotation `key` if `field`, an entry of `metadata.annotations` in protobuf, is that annotation.
///
/// # Errors
/// If the entry is malformed.
pub(crate) fn entry<'a>(field: Field<'a>, key: &str) -> Result<Option<&'a str>, WireError> {
    let (mut found, mut value) = ("", "");
    let mut entry = field.message()?;
    while let Some(field) = entry.field()? {
        match field.number {
            1 => found = field.text()?,
            2 => value = field.text()?,
            _ => {}
        }
    }
    Ok((found == key).then_some(value))
}

/// Applies `parse` to the value of the annotation `key` in the JSON of `metadata.annotations`. Gives `T::default()` if the
/// annotation is absent. Allocates nothing for the other annotations.
///
/// # Errors
/// If the JSON is not a map of texts.
pub(crate) fn pick<'de, D: Deserializer<'de>, T: Default>(
    deserializer: D,
    key: &'static str,
    parse: fn(&str) -> T,
) -> Result<T, D::Error> {
    struct Pick<T> {
        key: &'static str,
        parse: fn(&str) -> T,
    }
    impl<'de, T: Default> Visitor<'de> for Pick<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of texts")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
            let mut picked = T::default();
            while let Some(key) = map.next_key::<Key<'de>>()? {
                if *key == *self.key {
                    let value = map.next_value::<Option<Key<'de>>>()?;
                    picked = (self.parse)(value.as_deref().unwrap_or_default());
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(picked)
        }
    }
    deserializer.deserialize_map(Pick { key, parse })
}
