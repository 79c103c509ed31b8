//! What every object has, whatever its kind.

use arcstr::ArcStr;

use crate::{ObjectKey, OwnerReference, ResourceVersion, Time, Uid};

/// The part of `metadata` that every cached object carries.
///
/// Annotations, managed fields and the like are not here: who needs an annotation declares it in a projection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Tells two objects of one name apart.
    pub uid: Uid,
    /// The version of this state.
    pub resource_version: ResourceVersion,
    /// Counts changes of what is wanted (`spec`); zero for kinds that do not count.
    pub generation: i64,
    /// Ordered by key.
    pub labels: Labels,
    /// Who it belongs to.
    pub owners: Box<[OwnerReference]>,
    /// What must be done before it may go.
    pub finalizers: Box<[ArcStr]>,
    /// When it was created.
    pub created: Option<Time>,
    /// When its deletion becomes due: set once deletion was asked for.
    pub deleted: Option<Time>,
    /// The grace of that deletion in seconds.
    pub deletion_grace: Option<i64>,
}

impl Meta {
    /// The managing owner, as upstream's `GetControllerOf`.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.is_controller())
    }

    /// Whether `uid` manages this object, as upstream's `IsControlledBy`.
    pub fn is_controlled_by(&self, uid: &Uid) -> bool {
        self.controller().is_some_and(|owner| &owner.uid == uid)
    }

    /// Whether deletion was asked for.
    pub fn is_deleting(&self) -> bool {
        self.deleted.is_some()
    }

    /// Whether that finalizer holds the object.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|f| f == finalizer)
    }
}

/// Labels, ordered by key and each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Box<[(ArcStr, ArcStr)]>);

impl Labels {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&ArcStr> {
        let at = self.0.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// Sets a label.
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

    /// All of them, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&ArcStr, &ArcStr)> {
        self.0.iter().map(|(k, v)| (k, v))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Of a key that comes twice the last value is kept, as a protobuf map is read.
impl FromIterator<(ArcStr, ArcStr)> for Labels {
    fn from_iter<I: IntoIterator<Item = (ArcStr, ArcStr)>>(pairs: I) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.reverse();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, kept| later.0 == kept.0);
        Self(pairs.into_boxed_slice())
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Labels {
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
    }
}
