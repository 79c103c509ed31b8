//! The indexed cache: one writer, many readers.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::{HashMap, HashTable};
use parking_lot::RwLock;
use steersman_api::{Meta, ObjectKey, ResourceVersion, Uid};

use crate::index::{IndexFn, IndexId, IndexValue};
use crate::wire::{Decoded, Object};

mod postings;
mod size;
use postings::Postings;

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

struct Tables<K> {
    /// Identifies this store, so that it can refuse the indexes of other stores.
    id: u64,
    hasher: RandomState,
    /// The objects. Each keeps its place for as long as it is cached; the empty places are in `free`.
    slots: Vec<Option<Slot<K>>>,
    free: Vec<u32>,
    /// Every occupied slot, by its object's key.
    by_key: HashTable<u32>,
    /// Every occupied slot whose object has a uid, by that uid.
    by_uid: HashTable<u32>,
    /// Each index knows every occupied slot.
    indexes: Vec<Postings<K>>,
    /// The objects that can't be read.
    unreadable: HashMap<u32, Damage>,
    /// The number of the list that is under way, or of the last one.
    pass: u32,
    version: ResourceVersion,
    /// At least one list was complete.
    synced: bool,
    /// The list under way has an object whose name can't be read, so objects that seem absent from it may still exist.
    incomplete: bool,
}

struct Slot<K> {
    object: Arc<K>,
    /// The last list that had the object, or that was under way when a watch brought it.
    pass: u32,
}

/// Describes an object that can't be read.
struct Damage {
    why: Arc<str>,
    held: Held,
}

/// What the slot of an object that can't be read holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    /// The newest metadata, with the body of the last readable state.
    LastGood,
    /// The newest metadata alone: no earlier state was readable.
    MetaOnly,
}

/// The result of a read, collected under the lock.
struct Found<K> {
    readable: Vec<Arc<K>>,
    unreadable: Vec<(Arc<K>, Unreadable)>,
}

impl<K> Default for Tables<K> {
    fn default() -> Self {
        static STORES: AtomicU64 = AtomicU64::new(0);
        Self {
            id: STORES.fetch_add(1, Ordering::Relaxed),
            hasher: RandomState::new(),
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashTable::new(),
            by_uid: HashTable::new(),
            indexes: Vec::new(),
            unreadable: HashMap::new(),
            pass: 0,
            version: ResourceVersion::ANY,
            synced: false,
            incomplete: false,
        }
    }
}

impl<K: Object> Tables<K> {
    fn at(&self, place: u32) -> &Slot<K> {
        self.slots[place as usize].as_ref().expect("a table must name occupied slots only")
    }

    fn meta(&self, place: u32) -> &Meta {
        self.at(place).object.meta()
    }

    fn find(&self, key: &ObjectKey) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.by_key.find(hash, |place| self.meta(*place).key == *key).copied()
    }

    fn find_uid(&self, uid: &Uid) -> Option<u32> {
        let hash = self.hasher.hash_one(uid);
        self.by_uid.find(hash, |place| self.meta(*place).uid == *uid).copied()
    }

    /// The object at a place, if it can be read.
    fn readable(&self, place: u32) -> Result<Arc<K>, Unreadable> {
        let object = &self.at(place).object;
        match self.unreadable.get(&place) {
            None => Ok(Arc::clone(object)),
            Some(damage) => Err(Unreadable { key: object.meta().key.clone(), why: Arc::clone(&damage.why) }),
        }
    }

    /// Sorts the objects at some places by whether they can be read.
    fn sort(&self, places: impl Iterator<Item = u32>) -> Found<K> {
        let mut found = Found { readable: Vec::with_capacity(places.size_hint().0), unreadable: Vec::new() };
        for place in places {
            match self.readable(place) {
                Ok(object) => found.readable.push(object),
                Err(error) => found.unreadable.push((Arc::clone(&self.at(place).object), error)),
            }
        }
        found
    }

    fn index(&self, id: IndexId) -> &Postings<K> {
        assert!(id.store == self.id, "the index must be of the store that is asked");
        &self.indexes[id.at]
    }

    /// The objects that an index holds under a value. Objects that it can't place may belong there, so they count as unreadable.
    fn under(&self, index: IndexId, value: &IndexValue) -> Found<K> {
        let index = self.index(index);
        let mut found = self.sort(index.placed(value).iter().copied());
        found.unreadable.extend(index.unplaced().iter().map(|place| {
            let object = Arc::clone(&self.at(*place).object);
            let why = format!("the function of the index {:?} panicked", index.name).into();
            let key = object.meta().key.clone();
            (object, Unreadable { key, why })
        }));
        found
    }

    fn occupied(&self) -> impl Iterator<Item = u32> {
        let places = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_some());
        places.map(|(place, _)| u32::try_from(place).expect("a cache holds less than 2^32 objects"))
    }

    fn link(&mut self, place: u32) {
        let Self { hasher, slots, by_key, by_uid, indexes, .. } = self;
        let meta =
            |place: u32| slots[place as usize].as_ref().expect("linked slots are occupied").object.meta();
        let (key, uid) = (&meta(place).key, &meta(place).uid);
        by_key.insert_unique(hasher.hash_one(key), place, |place| hasher.hash_one(&meta(*place).key));
        if !uid.is_empty() {
            by_uid.insert_unique(hasher.hash_one(uid), place, |place| hasher.hash_one(&meta(*place).uid));
        }
        let object = &slots[place as usize].as_ref().expect("linked slots are occupied").object;
        for index in indexes {
            index.insert(object, place);
        }
    }

    fn unlink(&mut self, place: u32) {
        let object = Arc::clone(&self.at(place).object);
        let meta = object.meta();
        if let Ok(entry) = self.by_key.find_entry(self.hasher.hash_one(&meta.key), |other| *other == place) {
            entry.remove();
        }
        if let Ok(entry) = self.by_uid.find_entry(self.hasher.hash_one(&meta.uid), |other| *other == place) {
            entry.remove();
        }
        for index in &mut self.indexes {
            index.remove(&object, place);
        }
    }

    /// `None` if the object is already cached in this version.
    fn put(&mut self, mut object: K, why: Option<Arc<str>>) -> Option<Written<K>> {
        let pass = self.pass;
        let Some(place) = self.find(&object.meta().key) else {
            let object = Arc::new(object);
            let place = self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).expect("a cache holds less than 2^32 objects")
            });
            self.slots[place as usize] = Some(Slot { object: Arc::clone(&object), pass });
            self.unreadable.extend(why.map(|why| (place, Damage { why, held: Held::MetaOnly })));
            self.link(place);
            return Some(Written::Added(object));
        };
        let slot = self.slots[place as usize].as_mut().expect("a found slot is occupied");
        slot.pass = pass;
        let old = Arc::clone(&slot.object);
        let (before, now) = (old.meta(), object.meta());
        let same = before.uid == now.uid;
        match (why, self.unreadable.get(&place).map(|damage| damage.held)) {
            (None, None)
                if same
                    && before.resource_version == now.resource_version
                    && now.resource_version != ResourceVersion::ANY =>
            {
                return None;
            }
            // Keep the last readable body, as long as it is of the same object.
            (Some(why), None | Some(Held::LastGood)) if same => {
                self.unreadable.insert(place, Damage { why, held: Held::LastGood });
                object = old.with_meta(now.clone());
            }
            (Some(why), _) => _ = self.unreadable.insert(place, Damage { why, held: Held::MetaOnly }),
            (None, _) => _ = self.unreadable.remove(&place),
        }
        self.unlink(place);
        let object = Arc::new(object);
        self.slots[place as usize] = Some(Slot { object: Arc::clone(&object), pass });
        self.link(place);
        Some(Written::Updated(old, object))
    }

    fn take(&mut self, place: u32) -> Arc<K> {
        self.unlink(place);
        self.unreadable.remove(&place);
        self.free.push(place);
        self.slots[place as usize].take().expect("a found slot is occupied").object
    }
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
