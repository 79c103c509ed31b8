//! Decodes annotations out of an object's metadata.

use std::fmt;

use steersman_api::ArcStr;
use steersman_api::meta::LabelMap;
use steersman_informer::serde::Deserializer;
use steersman_informer::serde::de::{IgnoredAny, MapAccess, Visitor};
use steersman_informer::wire::{Field, FieldValue, Key, WireError};

/// The annotation in which `kubectl apply` keeps the whole manifest.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// All annotations of an object but [`LAST_APPLIED`], which is large and which controllers copy nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations(LabelMap);

impl Annotations {
    /// The value of an annotation.
    pub fn get(&self, key: &str) -> Option<&ArcStr> {
        self.0.get(key)
    }

    /// Sets an annotation, and replaces its old value.
    pub fn insert(&mut self, key: ArcStr, value: ArcStr) {
        self.0.insert(key, value);
    }

    /// Iterates over keys and values, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&ArcStr, &ArcStr)> {
        self.0.iter()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Annotations {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl FieldValue for Annotations {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        if entry(field, LAST_APPLIED)?.is_some() {
            return Ok(());
        }
        self.0.merge(field)
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = LabelMap::from_json(deserializer)?;
        let kept = all.iter().filter(|(key, _)| *key != LAST_APPLIED);
        Ok(Self(kept.map(|(key, value)| (key.clone(), value.clone())).collect()))
    }
}

/// The value of the annotation `key` if `field`, an entry of `metadata.annotations` in protobuf, is that annotation.
///
/// # Errors
/// If the entry is malformed.
pub(crate) fn entry<'a>(field: Field<'a>, key: &str) -> Result<Option<&'a str>, WireError> {
    let (found, value) = pair(field)?;
    Ok((found == key).then_some(value))
}

/// The key and the value of `field`, an entry of `metadata.annotations` in protobuf.
///
/// # Errors
/// If the entry is malformed.
pub(crate) fn pair(field: Field<'_>) -> Result<(&str, &str), WireError> {
    let (mut key, mut value) = ("", "");
    let mut entry = field.message()?;
    while let Some(field) = entry.field()? {
        match field.number {
            1 => key = field.text()?,
            2 => value = field.text()?,
            _ => {}
        }
    }
    Ok((key, value))
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
    let mut picked = T::default();
    pick_each(deserializer, &[key], |_, value| picked = parse(value))?;
    Ok(picked)
}

/// Calls `take` with the key and the value of each annotation in the JSON of `metadata.annotations` whose key is in `keys`.
/// Allocates nothing for the other annotations.
///
/// # Errors
/// If the JSON is not a map of texts.
pub(crate) fn pick_each<'de, D: Deserializer<'de>>(
    deserializer: D,
    keys: &[&str],
    take: impl FnMut(&str, &str),
) -> Result<(), D::Error> {
    struct Pick<'a, F> {
        keys: &'a [&'a str],
        take: F,
    }
    impl<'de, F: FnMut(&str, &str)> Visitor<'de> for Pick<'_, F> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of texts")
        }
        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key::<Key<'de>>()? {
                if self.keys.contains(&&*key) {
                    let value = map.next_value::<Option<Key<'de>>>()?;
                    (self.take)(&key, value.as_deref().unwrap_or_default());
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(())
        }
    }
    deserializer.deserialize_map(Pick { keys, take })
}
