//! Those annotations of an object that controllers read.

use std::fmt;
use std::marker::PhantomData;

use steersman_informer::Interned;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};

use super::annotation;

/// The keys of the annotations that a group keeps.
pub trait Keys: 'static {
    /// The keys, at most 256.
    const KEYS: &'static [&'static str];
}

/// The annotations of an object whose keys are in [`Keys::KEYS`]. The others are not cached.
pub struct SelectedAnnotations<K> {
    /// Positions in `K::KEYS` with the annotation's value, ascending.
    found: Box<[(u8, Interned)]>,
    keys: PhantomData<fn() -> K>,
}

impl<K: Keys> SelectedAnnotations<K> {
    /// The value of an annotation. `None` if the object does not have the annotation.
    ///
    /// # Panics
    /// If the key is none of [`Keys::KEYS`]: then the cache can't tell whether the object has it.
    pub fn get(&self, key: &str) -> Option<&Interned> {
        let position =
            position::<K>(key).expect("the key of an annotation that is read must be one of the kept keys");
        self.found.iter().find(|(found, _)| *found == position).map(|(_, value)| value)
    }

    /// Whether the object has an annotation, whatever its value.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Iterates over the annotations that the object has, in the order of [`Keys::KEYS`].
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Interned)> {
        self.found.iter().map(|(position, value)| (K::KEYS[usize::from(*position)], value))
    }

    fn insert(&mut self, key: &str, value: &str) {
        let Some(position) = position::<K>(key) else { return };
        let mut found = std::mem::take(&mut self.found).into_vec();
        match found.binary_search_by_key(&position, |(position, _)| *position) {
            Ok(at) => found[at].1 = value.into(),
            Err(at) => found.insert(at, (position, value.into())),
        }
        self.found = found.into();
    }
}

fn position<K: Keys>(key: &str) -> Option<u8> {
    let position = K::KEYS.iter().position(|known| *known == key)?;
    u8::try_from(position).ok()
}

impl<K: Keys> FieldValue for SelectedAnnotations<K> {
    fn heap_bytes(&self) -> usize {
        size_of_val(&*self.found) + self.found.iter().map(|(_, value)| value.heap_bytes()).sum::<usize>()
    }

    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let (key, value) = annotation::pair(field)?;
        self.insert(key, value);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut selected = Self::default();
        annotation::pick_each(deserializer, K::KEYS, |key, value| selected.insert(key, value))?;
        Ok(selected)
    }
}

/// The annotations of an object that has these, for tests.
impl<'a, K: Keys> FromIterator<(&'a str, &'a str)> for SelectedAnnotations<K> {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(annotations: I) -> Self {
        let mut selected = Self::default();
        annotations.into_iter().for_each(|(key, value)| selected.insert(key, value));
        selected
    }
}

impl<K> Default for SelectedAnnotations<K> {
    fn default() -> Self {
        Self { found: Box::default(), keys: PhantomData }
    }
}

impl<K> Clone for SelectedAnnotations<K> {
    fn clone(&self) -> Self {
        Self { found: self.found.clone(), keys: PhantomData }
    }
}

impl<K> PartialEq for SelectedAnnotations<K> {
    fn eq(&self, other: &Self) -> bool {
        self.found == other.found
    }
}

impl<K> Eq for SelectedAnnotations<K> {}

impl<K: Keys> fmt::Debug for SelectedAnnotations<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
