//! The indexed cache: one writer, many readers.

use std::sync::Arc;

use parking_lot::RwLock;
use steersman_api::{Meta, ObjectKey, ResourceVersion, Uid};

use crate::index::{IndexFn, IndexId, IndexValue};
use crate::wire::{Decoded, Object};

mod postings;
mod size;
mod tables;
use postings::Postings;
use tables::{Found, Tables};

/// Makes an empty store. The writer can't be cloned; the reader can.
pub fn store<K: Object>() -> (StoreWriter<K>, Store<K>) {
    let tables = Arc::new(RwLock::new(Tables::default()));
    (StoreWriter { tables: Arc::clone(&tables) }, Store { tables })
}

/// The reading side. Cheap to clone. The objects that it returns are immutable.
pub struct Store<K> {
    tables: Arc<RwLock<Tables<K>>>,
}

/// The writing side. Each store has exactly one.
///
/// Readers see each write whole: the objects, the uids and all indexes always agree.
pub struct StoreWriter<K> {
    tables: Arc<RwLock<Tables<K>>>,
}

/// What a write did to one object.
#[derive(Debug)]
pub enum Written<K> {
    /// The store had no object of this key.
    Added(Arc<K>),
    /// The store had an object of this key: the old state, the new one.
    Updated(Arc<K>, Arc<K>),
    /// The object was removed; its last state.
    Deleted(Arc<K>),
}

/// An object exists, but its body can't be read, or the function of an index panicked on it. The object counts as existing; a
/// sync that needs it must fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} can't be read: {why}")]
pub struct Unreadable {
    /// The object's key.
    pub key: ObjectKey,
    /// Why it can't be read.
    pub why: Arc<str>,
}

impl<K: Object> StoreWriter<K> {
    /// Adds an object, or replaces the object of its key. An unreadable object keeps the last readable body, if there is one,
    /// and is marked as unreadable.
    ///
    /// `None` if nothing changed: the object is already cached in this version, as most are in a relist, or its key can't be
    /// read.
    pub fn put(&mut self, decoded: Decoded<K>) -> Option<Written<K>> {
        let mut tables = self.tables.write();
        match decoded {
            Decoded::Good(object) => tables.put(object, None),
            Decoded::Unreadable(object, error) => tables.put(object, Some(error.to_string().into())),
            Decoded::Lost(_) => {
                tables.incomplete = true;
                None
            }
        }
    }

    /// Removes an object. Returns the state that the deletion event brought, as far as it can be read.
    pub fn delete(&mut self, decoded: Decoded<K>) -> Option<Written<K>> {
        let mut tables = self.tables.write();
        let place = tables.find(&decoded.object()?.meta().key)?;
        let cached = tables.take(place);
        Some(Written::Deleted(match decoded {
            Decoded::Good(last) => Arc::new(last),
            Decoded::Unreadable(last, _) if last.meta().uid == cached.meta().uid => {
                Arc::new(cached.with_meta(last.meta().clone()))
            }
            Decoded::Unreadable(..) | Decoded::Lost(_) => cached,
        }))
    }

    /// Begins a list. Objects that are put in from now on count as part of it.
    pub fn begin_list(&mut self) {
        let mut tables = self.tables.write();
        tables.pass = tables.pass.wrapping_add(1);
        tables.incomplete = false;
    }

    /// Completes the list: removes the objects that were not in it, and then sets the store's version to the list's. Returns the
    /// removed objects' last states.
    ///
    /// If the list had an object whose key could not be read, nothing is removed: that object may be any of them.
    pub fn complete_list(&mut self, version: ResourceVersion) -> Vec<Written<K>> {
        let mut tables = self.tables.write();
        let pass = tables.pass;
        let stale: Vec<u32> = if tables.incomplete {
            Vec::new()
        } else {
            tables.occupied().filter(|place| tables.at(*place).pass != pass).collect()
        };
        let swept = stale.into_iter().map(|place| Written::Deleted(tables.take(place))).collect();
        tables.version = version;
        tables.synced = true;
        swept
    }

    /// Records that the store has all changes up to this version.
    pub fn advance(&mut self, version: ResourceVersion) {
        let mut tables = self.tables.write();
        tables.version = tables.version.max(version);
    }
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self { tables: Arc::clone(&self.tables) }
    }
}

impl<K: Object> Store<K> {
    /// The object of this key.
    ///
    /// # Errors
    /// The object exists, but can't be read.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, Unreadable> {
        let tables = self.tables.read();
        tables.find(key).map(|place| tables.readable(place)).transpose()
    }

    /// The object of this uid.
    ///
    /// # Errors
    /// The object exists, but can't be read.
    pub fn get_by_uid(&self, uid: &Uid) -> Result<Option<Arc<K>>, Unreadable> {
        let tables = self.tables.read();
        tables.find_uid(uid).map(|place| tables.readable(place)).transpose()
    }

    /// All objects, in no order.
    ///
    /// # Errors
    /// One of them can't be read.
    pub fn list(&self) -> Result<Vec<Arc<K>>, Unreadable> {
        let (readable, unreadable) = self.list_readable();
        unreadable.into_iter().next().map_or(Ok(readable), Err)
    }

    /// All objects that can be read, in no order, and an error for each of the others.
    pub fn list_readable(&self) -> (Vec<Arc<K>>, Vec<Unreadable>) {
        let tables = self.tables.read();
        let Found { readable, unreadable } = tables.sort(tables.occupied());
        (readable, unreadable.into_iter().map(|(_, why)| why).collect())
    }

    /// The objects that an index holds under a value, in no order.
    ///
    /// # Errors
    /// One of them can't be read, or the index can't place some object.
    ///
    /// # Panics
    /// If the index belongs to another store. The same holds for all methods that take an index.
    pub fn by_index(&self, index: IndexId, value: &IndexValue) -> Result<Vec<Arc<K>>, Unreadable> {
        self.by_index_where(index, value, |_| true)
    }

    /// As [`by_index`](Self::by_index), but only the objects whose metadata is `wanted`. An unreadable object that is not wanted
    /// does not fail the read. `wanted` may read this store: no lock is held.
    ///
    /// # Errors
    /// A wanted object can't be read, or the index can't place it.
    pub fn by_index_where(
        &self,
        index: IndexId,
        value: &IndexValue,
        mut wanted: impl FnMut(&Meta) -> bool,
    ) -> Result<Vec<Arc<K>>, Unreadable> {
        let Found { mut readable, unreadable } = self.tables.read().under(index, value);
        if let Some((_, error)) = unreadable.into_iter().find(|(object, _)| wanted(object.meta())) {
            return Err(error);
        }
        readable.retain(|object| wanted(object.meta()));
        Ok(readable)
    }

    /// The number of objects that an index holds under a value, including unreadable ones and those that it can't place.
    pub fn count_by_index(&self, index: IndexId, value: &IndexValue) -> usize {
        let tables = self.tables.read();
        let index = tables.index(index);
        index.placed(value).len() + index.unplaced().len()
    }

    /// Calls `look` with each object that is cached when the call begins, unreadable ones included, of which only the metadata
    /// is current. `look` may read this store and may take long: no lock is held.
    pub fn for_each(&self, look: impl FnMut(&Arc<K>)) {
        let objects: Vec<Arc<K>> =
            self.tables.read().slots.iter().flatten().map(|slot| Arc::clone(&slot.object)).collect();
        objects.iter().for_each(look);
    }

    /// Whether the store holds an object whose metadata is `wanted`, whether it can be read or not. `wanted` must be quick and
    /// must not read this store: it runs under the lock.
    pub fn holds_any(&self, wanted: impl FnMut(&Meta) -> bool) -> bool {
        self.tables.read().slots.iter().flatten().map(|slot| slot.object.meta()).any(wanted)
    }

    /// The object of this key, whether it can be read or not.
    pub(crate) fn peek(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let tables = self.tables.read();
        tables.find(key).map(|place| Arc::clone(&tables.at(place).object))
    }

    /// The metadata of the object of this key, whether it can be read or not.
    pub fn meta(&self, key: &ObjectKey) -> Option<Meta> {
        let tables = self.tables.read();
        tables.find(key).map(|place| tables.meta(place).clone())
    }

    /// The metadata of the object of this uid, whether it can be read or not.
    pub fn meta_by_uid(&self, uid: &Uid) -> Option<Meta> {
        let tables = self.tables.read();
        tables.find_uid(uid).map(|place| tables.meta(place).clone())
    }

    /// As [`for_each`](Self::for_each), for the objects that an index holds under a value, and those that it can't place.
    pub fn for_each_by_index(&self, index: IndexId, value: &IndexValue, mut look: impl FnMut(&Arc<K>)) {
        let Found { readable, unreadable } = self.tables.read().under(index, value);
        readable.iter().chain(unreadable.iter().map(|(object, _)| object)).for_each(&mut look);
    }

    /// The number of objects, unreadable ones included.
    pub fn len(&self) -> usize {
        self.tables.read().by_key.len()
    }

    /// Whether the store is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of objects that can't be read.
    pub fn unreadable_len(&self) -> usize {
        self.tables.read().unreadable.len()
    }

    /// Whether at least one list was complete.
    pub fn has_synced(&self) -> bool {
        self.tables.read().synced
    }

    /// The store has all changes up to this version. The versions of all objects of a kind can be compared with it.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.tables.read().version
    }

    /// Adds an index over all objects, present and future. If an index has this name already, returns that index. `values` must
    /// not read this store: it runs under the writer's lock.
    ///
    /// Objects on which `values` panics may belong under any value, so reads of the index that could need them fail.
    pub fn add_index(&self, name: &'static str, values: Arc<IndexFn<K>>) -> IndexId {
        let named = |tables: &Tables<K>| {
            let at = tables.indexes.iter().position(|index| index.name == name)?;
            Some(IndexId { store: tables.id, at })
        };
        // The index usually exists. Then readers need not wait.
        if let Some(index) = named(&self.tables.read()) {
            return index;
        }
        let mut tables = self.tables.write();
        if let Some(index) = named(&tables) {
            return index;
        }
        let mut index = Postings::new(name, values);
        for place in tables.occupied() {
            index.insert(&tables.at(place).object, place);
        }
        tables.indexes.push(index);
        IndexId { store: tables.id, at: tables.indexes.len() - 1 }
    }

    /// The values under which an index holds objects.
    pub fn index_values(&self, index: IndexId) -> Vec<IndexValue> {
        self.tables.read().index(index).values().cloned().collect()
    }
}

#[cfg(test)]
mod tests;
