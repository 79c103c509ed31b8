//! The metadata that all cached objects have.

use arcstr::ArcStr;

use crate::{ObjectKey, OwnerReference, ResourceVersion, SharedList, Time, Uid};

/// The part of `metadata` that every cached object has.
///
/// It lacks annotations and managed fields, to save memory. A controller that reads an annotation declares it in a
/// projection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Namespace and name.
    pub key: ObjectKey,
    /// The uid, which tells an object from a later one of the same name.
    pub uid: Uid,
    /// The version of this state of the object.
    pub resource_version: ResourceVersion,
    /// Number of changes of the desired state (`spec`); zero for kinds without generations.
    pub generation: i64,
    /// The labels.
    pub labels: Labels,
    /// The owner references.
    pub owners: SharedList<OwnerReference>,
    /// The finalizers. The API server removes the object only once this list is empty.
    pub finalizers: SharedList<ArcStr>,
    /// The creation timestamp.
    pub created: Option<Time>,
    /// The object's deletion. `None` until a client deletes the object. It lies behind a pointer since few of a cache's objects are
    /// being deleted at a time.
    pub deletion: Option<Box<Deletion>>,
}

/// A deletion that a client has asked for. The object goes when its grace period has ended and it has no finalizers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The deletion timestamp: when the grace period ends.
    pub at: Time,
    /// The grace period, in seconds.
    pub grace: Option<i64>,
}

impl Deletion {
    /// A deletion with this timestamp and without a grace period, for [`Meta::deletion`].
    pub fn at(at: Time) -> Option<Box<Self>> {
        Some(Box::new(Self { at, grace: None }))
    }
}

impl Meta {
    /// Returns the owner reference of the managing controller. Upstream's `GetControllerOf`.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.is_controller())
    }

    /// Whether the owner with this uid is the managing controller. Upstream's `IsControlledBy`.
    pub fn is_controlled_by(&self, uid: &Uid) -> bool {
        self.controller().is_some_and(|owner| &owner.uid == uid)
    }

    /// Whether the object has a deletion timestamp.
    pub fn is_deleting(&self) -> bool {
        self.deletion.is_some()
    }

    /// The deletion timestamp: when the deletion's grace period ends. `None` until a client deletes the object.
    pub fn deleted(&self) -> Option<Time> {
        self.deletion.as_ref().map(|deletion| deletion.at)
    }

    /// The grace period of the object's deletion, in seconds.
    pub fn deletion_grace(&self) -> Option<i64> {
        self.deletion.as_ref()?.grace
    }

    /// Whether the object has this finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|f| f == finalizer)
    }
}

/// Labels of an object, sorted by key. Each key occurs once. Clones share their memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(SharedList<(ArcStr, ArcStr)>);

/// A map of strings, sorted by key, such as annotations or a selector's `matchLabels`. Unlike [`Labels`], it is not shared, and to insert
/// a key copies no other one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelMap(Box<[(ArcStr, ArcStr)]>);

fn find<'a>(pairs: &'a [(ArcStr, ArcStr)], key: &str) -> Option<&'a ArcStr> {
    let at = pairs.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok()?;
    Some(&pairs[at].1)
}

/// Sorts the pairs, and keeps the last value of a key that occurs twice, as protobuf maps do.
fn sorted(pairs: impl IntoIterator<Item = (ArcStr, ArcStr)>) -> Vec<(ArcStr, ArcStr)> {
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.reverse();
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    pairs.dedup_by(|later, kept| later.0 == kept.0);
    pairs
}

impl Labels {
    /// Returns the value of a label.
    pub fn get(&self, key: &str) -> Option<&ArcStr> {
        find(&self.0, key)
    }

    /// Sets a label, and replaces its old value. Copies all other labels.
    pub fn insert(&mut self, key: ArcStr, value: ArcStr) {
        let mut labels = LabelMap(self.0.to_vec().into());
        labels.insert(key, value);
        self.0 = labels.0.into_vec().into();
    }

    /// Iterates over keys and values, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&ArcStr, &ArcStr)> {
        self.0.iter().map(|(k, v)| (k, v))
    }

    /// Whether both share their memory, or are empty.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.is_same(&other.0)
    }

    /// How many share their memory. Zero if there are no labels.
    pub fn users(&self) -> usize {
        self.0.users()
    }

    /// Number of labels.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl LabelMap {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&ArcStr> {
        find(&self.0, key)
    }

    /// Sets the value of a key, and replaces its old one.
    pub fn insert(&mut self, key: ArcStr, value: ArcStr) {
        let mut pairs = std::mem::take(&mut self.0).into_vec();
        match pairs.binary_search_by(|(k, _)| k.cmp(&key)) {
            Ok(at) => pairs[at].1 = value,
            Err(at) => {
                pairs.reserve_exact(1);
                pairs.insert(at, (key, value));
            }
        }
        self.0 = pairs.into_boxed_slice();
    }

    /// Iterates over keys and values, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&ArcStr, &ArcStr)> {
        self.0.iter().map(|(k, v)| (k, v))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Keeps the last value of a key that occurs twice, as protobuf maps do.
impl FromIterator<(ArcStr, ArcStr)> for Labels {
    fn from_iter<I: IntoIterator<Item = (ArcStr, ArcStr)>>(pairs: I) -> Self {
        Self(sorted(pairs).into())
    }
}

/// Keeps the last value of a key that occurs twice, as protobuf maps do.
impl FromIterator<(ArcStr, ArcStr)> for LabelMap {
    fn from_iter<I: IntoIterator<Item = (ArcStr, ArcStr)>>(pairs: I) -> Self {
        Self(sorted(pairs).into())
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Labels {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        pairs.into_iter().map(|(k, v)| (ArcStr::from(k), ArcStr::from(v))).collect()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for LabelMap {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        pairs.into_iter().map(|(k, v)| (ArcStr::from(k), ArcStr::from(v))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_by_key_and_the_last_value_of_a_key_wins() {
        let labels: Labels = [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect();
        assert_eq!(labels.len(), 2);
        assert_eq!(labels.get("b").unwrap(), "3");
        assert_eq!(labels.get("c"), None);

        let mut inserted = Labels::default();
        for (key, value) in [("b", "1"), ("a", "2"), ("b", "3")] {
            inserted.insert(key.into(), value.into());
        }
        assert_eq!(inserted, labels);

        let mut map = LabelMap::default();
        for (key, value) in [("b", "1"), ("a", "2"), ("b", "3")] {
            map.insert(key.into(), value.into());
        }
        assert!(map.iter().eq(labels.iter()));
    }
}
