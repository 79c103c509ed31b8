//! Typed reads of a cache.

use std::sync::Arc;

use steersman_api::{Meta, ObjectKey, ResourceVersion, Uid};

use crate::index::{Index, IndexValue};
use crate::store::{Store, Unreadable};
use crate::wire::{Object, Selection, View};

/// Reads what is cached of a kind, as far as a selection keeps it. Cheap to clone; never calls the API server.
///
/// Reads are strict: an object that exists but can't be read fails the read that would need it, so that bad input never
/// looks like absence. Where only metadata matters, [`meta`](Self::meta) and [`for_each_meta`](Self::for_each_meta) give all.
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

    /// The object of that key, or `None` if there is none in the cache.
    ///
    /// # Errors
    /// It exists, but can't be read.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<View<S>>, Unreadable> {
        Ok(self.store.get(key)?.map(View::new))
    }

    /// The object of that uid.
    ///
    /// # Errors
    /// It exists, but can't be read.
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

    /// All objects that can be read, in no order, and what is wrong with each of the others.
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
    /// If the index is of another informer. All methods that take an index do so.
    pub fn by_index(&self, index: &Index<S>, value: &IndexValue) -> Result<Vec<View<S>>, Unreadable> {
        Ok(views(self.store.by_index(index.id, value)?))
    }

    /// Of those, the ones whose metadata is `wanted`. An object that can't be read harms only those who want it. `wanted` may
    /// read this cache.
    ///
    /// # Errors
    /// One of them can't be read, or the index's function panicked on one.
    pub fn by_index_where(
        &self,
        index: &Index<S>,
        value: &IndexValue,
        wanted: impl FnMut(&Meta) -> bool,
    ) -> Result<Vec<View<S>>, Unreadable> {
        Ok(views(self.store.by_index_where(index.id, value, wanted)?))
    }

    /// How many objects an index holds under a value, including those that can't be read or that its function panicked on.
    pub fn count_by_index(&self, index: &Index<S>, value: &IndexValue) -> usize {
        self.store.count_by_index(index.id, value)
    }

    /// Calls `look` with the metadata of every object that is there when the call begins, unreadable ones included. `look` may
    /// read this cache.
    pub fn for_each_meta(&self, mut look: impl FnMut(&Meta)) {
        self.store.for_each(|object| look(object.meta()));
    }

    /// As [`for_each_meta`](Self::for_each_meta), over the objects that an index holds under a value. An object that the
    /// index's function panicked on is among them, whatever the value.
    pub fn for_each_meta_by_index(&self, index: &Index<S>, value: &IndexValue, mut look: impl FnMut(&Meta)) {
        self.store.for_each_by_index(index.id, value, |object| look(object.meta()));
    }

    /// The metadata of the object of that key, also of one that can't be read.
    pub fn meta(&self, key: &ObjectKey) -> Option<Meta> {
        self.store.meta(key)
    }

    /// How many objects there are, unreadable ones included.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// Everything up to this version is in the cache.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.store.last_sync_resource_version()
    }
}

fn views<S: Selection>(objects: Vec<Arc<S::Kind>>) -> Vec<View<S>> {
    objects.into_iter().map(View::new).collect()
}
