//! Decodes the data of ConfigMaps and Secrets.

use std::fmt;
use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use steersman_informer::serde::Deserializer;
use steersman_informer::serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use steersman_informer::wire::{Field, Key, WireError};

/// What a kind keeps of the data of a Secret.
pub(crate) trait SecretData: Default {
    /// The keys whose values [`add`](Self::add) gets.
    const KEYS: &[&str];

    /// Takes in one key with its decoded value.
    fn add(&mut self, key: &str, value: &[u8]);
}

/// Decodes the data of a Secret in JSON, whose values are in base64.
///
/// # Errors
/// The data are malformed. The error does not quote them.
pub(crate) fn from_json<'de, T: SecretData, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Entries<T>(PhantomData<T>);
    impl<'de, T: SecretData> Visitor<'de> for Entries<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of texts in base64")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
            let mut data = T::default();
            while let Some(key) = map.next_key::<Key<'de>>()? {
                if !T::KEYS.contains(&&*key) {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                let value = map.next_value::<Option<Key<'de>>>()?;
                let value = STANDARD.decode(value.as_deref().unwrap_or_default());
                data.add(&key, &value.map_err(|_| A::Error::custom("data must be base64"))?);
            }
            Ok(data)
        }
    }
    deserializer.deserialize_map(Entries(PhantomData))
}

/// The key and the value of an entry of a `map<string, string>` or `map<string, bytes>` in protobuf.
///
/// # Errors
/// The entry is malformed.
pub(crate) fn entry(field: Field<'_>) -> Result<(&str, &[u8]), WireError> {
    let (mut key, mut value) = ("", &[][..]);
    let mut entry = field.message()?;
    while let Some(field) = entry.field()? {
        match field.number {
            1 => key = field.text()?,
            2 => value = field.bytes()?,
            _ => {}
        }
    }
    Ok((key, value))
}
