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
use postings::Postings;

/// Makes an empty store: the writer, which can't be cloned, and a reader, which can.
pub fn store<K: Object>() -> (StoreWriter<K>, Store<K>) {
    let tables = Arc::new(RwLock::new(Tables::default()));
    (StoreWriter { tables: Arc::clone(&tables) }, Store { tables })
}

/// The reading side. Cheap to clone; what it hands out nobody can change.
pub struct Store<K> {
    tables: Arc<RwLock<Tables<K>>>,
}

/// The writing side: there is one for each store.
///
/// Every call leaves objects, uids and all indexes in agreement, before any reader can look.
pub struct StoreWriter<K> {
    tables: Arc<RwLock<Tables<K>>>,
}

/// What a write did to one object.
#[derive(Debug)]
pub enum Written<K> {
    /// There was none of that key.
    Added(Arc<K>),
    /// There was one: the old state, the new one.
    Updated(Arc<K>, Arc<K>),
    /// There is none any more; the last state.
    Deleted(Arc<K>),
}

/// An object that exists, but whose body can't be read, or that an index can't place. It counts as existing; a sync that
/// needs it must fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} can't be read: {why}")]
pub struct Unreadable {
    /// Which object.
    pub key: ObjectKey,
    /// What is wrong with it.
    pub why: Arc<str>,
}

struct Tables<K> {
    /// Tells this store's indexes from those of others in the process.
    id: u64,
    hasher: RandomState,
    /// Objects at places that stay theirs for as long as they are here; the others are in `free`.
    slots: Vec<Option<Slot<K>>>,
    free: Vec<u32>,
    /// Every occupied slot, by its object's key.
    by_key: HashTable<u32>,
    /// Every occupied slot whose object has a uid, by it.
    by_uid: HashTable<u32>,
    /// Each of them holds every occupied slot.
    indexes: Vec<Postings<K>>,
    /// The objects that can't be read.
    unreadable: HashMap<u32, Damage>,
    /// Which list or relist is under way, or was last.
    pass: u32,
    version: ResourceVersion,
    /// A list has been complete.
    synced: bool,
    /// The list under way names an object that nobody can tell: what it does not name may still exist.
    incomplete: bool,
}

struct Slot<K> {
    object: Arc<K>,
    /// The last list that named it, or that was under way when it came.
    pass: u32,
}

/// Of an object that can't be read.
struct Damage {
    why: Arc<str>,
    held: Held,
}

/// What stands in the slot of an object that can't be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    /// The newest metadata, and the body of the last state that could be read.
    LastGood,
    /// The newest metadata alone: no state before it could be read.
    MetaOnly,
}

/// What a read found under its lock.
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

    /// The object at a place, or that it can't be read.
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

    /// The objects that an index holds under a value. Those that it can't place may belong there: they are unreadable.
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

    /// `None` if the object is cached in this very state.
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
            // The last good body is of more use than none, as long as it is the same object's.
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
    /// Puts an object in, in place of one of the same key. An unreadable one gets the last body that could be read, if there
    /// is one, and is marked as unreadable.
    ///
    /// `None` if nothing changed: the object is cached in that version already (as most are when a list comes again), or
    /// nobody can tell which object it was.
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

    /// Takes an object out. The last state is the one that the deletion brought, as far as it can be read.
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

    /// A list begins: from now on objects that come are marked as seen by it.
    pub fn begin_list(&mut self) {
        let mut tables = self.tables.write();
        tables.pass = tables.pass.wrapping_add(1);
        tables.incomplete = false;
    }

    /// The list is complete: takes out what it did not name, with their last states, and only then takes over its version.
    ///
    /// A list with an object that nobody could tell takes nothing out: that object may be any of those.
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

    /// Everything up to this version has been put in or taken out.
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
    /// The object of that key.
    ///
    /// # Errors
    /// It exists, but can't be read.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, Unreadable> {
        let tables = self.tables.read();
        tables.find(key).map(|place| tables.readable(place)).transpose()
    }

    /// The object of that uid.
    ///
    /// # Errors
    /// It exists, but can't be read.
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

    /// All objects that can be read, in no order, and what is wrong with each of the others.
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
    /// If the index is of another store. All methods that take an index do so.
    pub fn by_index(&self, index: IndexId, value: &IndexValue) -> Result<Vec<Arc<K>>, Unreadable> {
        self.by_index_where(index, value, |_| true)
    }

    /// Of those, the ones whose metadata is `wanted`: an object that can't be read harms only those who want it. `wanted` may
    /// read this store: no lock is held.
    ///
    /// # Errors
    /// One of them can't be read, or the index can't place one.
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

    /// How many objects an index holds under a value, including unreadable ones and those that it can't place.
    pub fn count_by_index(&self, index: IndexId, value: &IndexValue) -> usize {
        let tables = self.tables.read();
        let index = tables.index(index);
        index.placed(value).len() + index.unplaced().len()
    }

    /// Calls `look` with each object that is there when the call begins, unreadable ones included: of those only the metadata
    /// is sure. `look` may take its time and read this store: no lock is held.
    pub fn for_each(&self, look: impl FnMut(&Arc<K>)) {
        let objects: Vec<Arc<K>> =
            self.tables.read().slots.iter().flatten().map(|slot| Arc::clone(&slot.object)).collect();
        objects.iter().for_each(look);
    }

    /// The object of that key, whether it can be read or not.
    pub(crate) fn peek(&self, key: &ObjectKey) -> Option<Arc<K>> {
        let tables = self.tables.read();
        tables.find(key).map(|place| Arc::clone(&tables.at(place).object))
    }

    /// The metadata of the object of that key, whether it can be read or not.
    pub fn meta(&self, key: &ObjectKey) -> Option<Meta> {
        let tables = self.tables.read();
        tables.find(key).map(|place| tables.meta(place).clone())
    }

    /// The metadata of the object of that uid, whether it can be read or not.
    pub fn meta_by_uid(&self, uid: &Uid) -> Option<Meta> {
        let tables = self.tables.read();
        tables.find_uid(uid).map(|place| tables.meta(place).clone())
    }

    /// As [`for_each`](Self::for_each), over what an index holds under a value, and what it can't place.
    pub fn for_each_by_index(&self, index: IndexId, value: &IndexValue, mut look: impl FnMut(&Arc<K>)) {
        let Found { readable, unreadable } = self.tables.read().under(index, value);
        readable.iter().chain(unreadable.iter().map(|(object, _)| object)).for_each(&mut look);
    }

    /// How many objects there are, unreadable ones included.
    pub fn len(&self) -> usize {
        self.tables.read().by_key.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many objects can't be read.
    pub fn unreadable_len(&self) -> usize {
        self.tables.read().unreadable.len()
    }

    /// Whether a list has been complete.
    pub fn has_synced(&self) -> bool {
        self.tables.read().synced
    }

    /// Everything up to this version is in the store. Versions of one kind compare, whatever object they belong to.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.tables.read().version
    }

    /// Adds an index over all that is cached and will be. A name that is taken gives the index that has it. `values` must not
    /// read this store: it runs under the lock of the writer.
    ///
    /// Objects that `values` panics on may belong under any value: reads of the index that could need them fail.
    pub fn add_index(&self, name: &'static str, values: Arc<IndexFn<K>>) -> IndexId {
        let named = |tables: &Tables<K>| {
            let at = tables.indexes.iter().position(|index| index.name == name)?;
            Some(IndexId { store: tables.id, at })
        };
        // Mostly the index exists, and readers need not wait.
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

    /// The values under which an index holds anything.
    pub fn index_values(&self, index: IndexId) -> Vec<IndexValue> {
        self.tables.read().index(index).values().cloned().collect()
    }
}

#[cfg(test)]
mod tests;
