//! Typed reads of a cache.

use std::sync::Arc;

use steersman_api::{Meta, ObjectKey, ResourceVersion, Uid};

use crate::index::{Index, IndexValue};
use crate::store::{Store, Unreadable};
use crate::wire::{Object, Selection, View};

/// Reads the cached objects of a kind, with the fields of one selection. Cheap to clone. Never calls the API server.
///
/// Reads are strict: if a read would need an object that exists but can't be read, it fails, so that bad input never looks
/// like absence. Where only metadata matters, [`meta`](Self::meta) and [`for_each_meta`](Self::for_each_meta) give all objects.
pub struct Lister<S: Selection> {
    store: Store<S::Kind>,
}

impl<S: Selection> Clone for Lister<S> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone() }
    }
}

impl<S: Selection> Lister<S> {
    pub(crate) fn new(store: Store<S::Kind>) -> Self {
        Self { store }
    }

    /// The object of this key, or `None` if the cache has none.
    ///
    /// # Errors
    /// The object exists, but can't be read.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<View<S>>, Unreadable> {
        Ok(self.store.get(key)?.map(View::new))
    }

    /// The object of this uid.
    ///
    /// # Errors
    /// The object exists, but can't be read.
    pub fn get_by_uid(&self, uid: &Uid) -> Result<Option<View<S>>, Unreadable> {
        Ok(self.store.get_by_uid(uid)?.map(View::new))
    }

    /// All objects, in no order.
    ///
    /// # Errors
    /// One of them can't be read.
    pub fn list(&self) -> Result<Vec<View<S>>, Unreadable> {
        Ok(views(self.store.list()?))
    }

    /// All objects that can be read, in no order, and an error for each of the others.
    pub fn list_readable(&self) -> (Vec<View<S>>, Vec<Unreadable>) {
        let (readable, unreadable) = self.store.list_readable();
        (views(readable), unreadable)
    }

    /// The objects that an index holds under a value, in no order.
    ///
    /// # Errors
    /// One of them can't be read, or the index's function panicked on some object.
    ///
    /// # Panics
    /// If the index belongs to another informer. The same holds for all methods that take an index.
    pub fn by_index(&self, index: &Index<S>, value: &IndexValue) -> Result<Vec<View<S>>, Unreadable> {
        Ok(views(self.store.by_index(index.id, value)?))
    }

    /// As [`by_index`](Self::by_index), but only the objects whose metadata is `wanted`. An unreadable object that is not wanted
    /// does not fail the read. `wanted` may read this cache.
    ///
    /// # Errors
    /// A wanted object can't be read, or the index's function panicked on it.
    pub fn by_index_where(
        &self,
        index: &Index<S>,
        value: &IndexValue,
        wanted: impl FnMut(&Meta) -> bool,
    ) -> Result<Vec<View<S>>, Unreadable> {
        Ok(views(self.store.by_index_where(index.id, value, wanted)?))
    }

    /// The number of objects that an index holds under a value, including those that can't be read or that its function panicked
    /// on.
    pub fn count_by_index(&self, index: &Index<S>, value: &IndexValue) -> usize {
        self.store.count_by_index(index.id, value)
    }

    /// Calls `look` with the metadata of every object that is cached when the call begins, unreadable ones included. `look` may
    /// read this cache.
    pub fn for_each_meta(&self, mut look: impl FnMut(&Meta)) {
        self.store.for_each(|object| look(object.meta()));
    }

    /// As [`for_each_meta`](Self::for_each_meta), over the objects that an index holds under a value. An object that the
    /// index's function panicked on is among them, whatever the value.
    pub fn for_each_meta_by_index(&self, index: &Index<S>, value: &IndexValue, mut look: impl FnMut(&Meta)) {
        self.store.for_each_by_index(index.id, value, |object| look(object.meta()));
    }

    /// The metadata of the object of this key, also if the object can't be read.
    pub fn meta(&self, key: &ObjectKey) -> Option<Meta> {
        self.store.meta(key)
    }

    /// The number of objects, unreadable ones included.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// The cache has all changes up to this version.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.store.last_sync_resource_version()
    }
}

fn views<S: Selection>(objects: Vec<Arc<S::Kind>>) -> Vec<View<S>> {
    objects.into_iter().map(View::new).collect()
}
