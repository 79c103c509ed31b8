//! Indexes of a store.

use std::marker::PhantomData;
use std::sync::Arc;

use steersman_api::{ArcStr, OwnerReference, Uid};

use crate::wire::{Object, Selection};

/// A value under which an index holds objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IndexValue {
    /// A string, such as a namespace or a node's name.
    Text(ArcStr),
    /// Two strings, such as a namespace and a name in it.
    Pair(ArcStr, ArcStr),
    /// Three strings, such as a namespace and a label's key and value.
    Triple(ArcStr, ArcStr, ArcStr),
    /// A uid, such as an owner's.
    Uid(Uid),
    /// An owner in the object's namespace, or a cluster-scoped one: the object's namespace and the owner's uid.
    Owner(ArcStr, Uid),
}

impl From<ArcStr> for IndexValue {
    fn from(text: ArcStr) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for IndexValue {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<Uid> for IndexValue {
    fn from(uid: Uid) -> Self {
        Self::Uid(uid)
    }
}

/// Calls back with each value under which an index holds an object. It must always give the same values for the same object.
pub type IndexFn<K> = dyn Fn(&Arc<K>, &mut dyn FnMut(IndexValue)) + Send + Sync;

/// The id of an index of one store. Other stores refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexId {
    pub(crate) store: u64,
    pub(crate) at: usize,
}

/// An index of one informer's cache: see [`Informer::add_index`](crate::Informer::add_index). Listers of other informers panic
/// if they get it.
pub struct Index<S> {
    pub(crate) id: IndexId,
    selection: PhantomData<fn() -> S>,
}

impl<S> Index<S> {
    pub(crate) fn new(id: IndexId) -> Self {
        Self { id, selection: PhantomData }
    }
}

impl<S> Clone for Index<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Index<S> {}

impl<S> std::fmt::Debug for Index<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.id.fmt(f)
    }
}

/// The name of the index by namespace, as in client-go.
pub const BY_NAMESPACE: &str = "namespace";

/// The function of [`BY_NAMESPACE`].
pub fn by_namespace<S: Selection>(object: &crate::View<S>) -> Vec<IndexValue> {
    vec![object.meta().key.namespace.clone().into()]
}

/// The name of the index by each label of an object, with its namespace ([`IndexValue::Triple`]: namespace, key, value).
/// Finds the objects that a selector selects without a look at the others of the namespace.
pub const BY_LABEL: &str = "label";

/// The function of [`BY_LABEL`].
pub fn by_label<S: Selection>(object: &crate::View<S>) -> Vec<IndexValue> {
    let meta = object.meta();
    let labels = meta.labels.iter();
    labels
        .map(|(key, value)| IndexValue::Triple(meta.key.namespace.clone(), key.clone(), value.clone()))
        .collect()
}

/// The name of the index by managing owner ([`IndexValue::Owner`]). Objects without a managing owner are not in it.
///
/// The namespace is part of the value because an owner owns within its namespace only: a reference from elsewhere is invalid,
/// even if its uid is right. The reader must compare the kind and the name of the reference.
pub const BY_CONTROLLER: &str = "controller";

/// The function of [`BY_CONTROLLER`].
pub fn by_controller<S: Selection>(object: &crate::View<S>) -> Vec<IndexValue> {
    let meta = object.meta();
    let owner = |owner: &OwnerReference| IndexValue::Owner(meta.key.namespace.clone(), owner.uid.clone());
    meta.controller().map(owner).into_iter().collect()
}

/// The name of the index by the uid of every owner, managing or not, for garbage collection. It covers all namespaces,
/// because cluster-scoped owners own objects in all of them, and because garbage collection must find invalid references.
pub const BY_OWNER_UID: &str = "ownerUID";

/// The function of [`BY_OWNER_UID`].
pub(crate) fn owners<K: Object>(object: &Arc<K>, found: &mut dyn FnMut(IndexValue)) {
    object.meta().owners.iter().for_each(|owner| found(owner.uid.clone().into()));
}

#[cfg(test)]
mod tests {
    use steersman_api::{Meta, ObjectKey};

    use super::*;
    use crate::View;
    use crate::wire::meta::MetaOnly;

    #[test]
    fn an_owner_is_looked_for_in_the_namespace_of_its_objects() {
        let owned_in = |namespace: &str| {
            let owners = [OwnerReference::controller("batch/v1", "Job", "pi", Uid::from("1"))].into();
            let meta = Meta { key: ObjectKey::new(namespace, "pi-0"), owners, ..Meta::default() };
            by_controller(&View::<MetaOnly>::new(Arc::new(MetaOnly(meta))))
        };
        let owner = |namespace: &str| IndexValue::Owner(namespace.into(), "1".into());
        assert_eq!(owned_in("mine"), [owner("mine")]);
        assert_ne!(owned_in("another"), [owner("mine")]);
    }

    #[test]
    fn the_value_of_an_owner_makes_no_other_value_larger() {
        assert_eq!(size_of::<IndexValue>(), 32);
    }
}
