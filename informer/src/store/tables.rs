//! The tables of a store.
//!
//! Every table and index names objects by their places in `slots`, so that an object is cached once.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::{HashMap, HashTable};
use steersman_api::{Meta, ObjectKey, ResourceVersion, Uid};

use super::postings::Postings;
use super::{Unreadable, Written};
use crate::index::{IndexId, IndexValue};
use crate::wire::Object;

/// All that a store holds. Its methods keep the tables and the indexes in agreement.
pub(super) struct Tables<K> {
    /// Identifies this store, so that it can refuse the indexes of other stores.
    pub(super) id: u64,
    hasher: RandomState,
    /// The objects. Each keeps its place for as long as it is cached; the empty places are in `free`.
    pub(super) slots: Vec<Option<Slot<K>>>,
    free: Vec<u32>,
    /// Every occupied slot, by its object's key.
    pub(super) by_key: HashTable<u32>,
    /// Every occupied slot whose object has a uid, by that uid.
    pub(super) by_uid: HashTable<u32>,
    /// Each index knows every occupied slot.
    pub(super) indexes: Vec<Postings<K>>,
    /// The objects that can't be read.
    pub(super) unreadable: HashMap<u32, Damage>,
    /// The number of the list that is under way, or of the last one.
    pub(super) pass: u32,
    pub(super) version: ResourceVersion,
    /// At least one list was complete.
    pub(super) synced: bool,
    /// The list under way has an object whose name can't be read, so objects that seem absent from it may still exist.
    pub(super) incomplete: bool,
}

/// A place for an object.
pub(super) struct Slot<K> {
    pub(super) object: Arc<K>,
    /// The last list that had the object, or that was under way when a watch brought it.
    pub(super) pass: u32,
}

/// Describes an object that can't be read.
pub(super) struct Damage {
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
pub(super) struct Found<K> {
    pub(super) readable: Vec<Arc<K>>,
    pub(super) unreadable: Vec<(Arc<K>, Unreadable)>,
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
    pub(super) fn at(&self, place: u32) -> &Slot<K> {
        self.slots[place as usize].as_ref().expect("a table must name occupied slots only")
    }

    pub(super) fn meta(&self, place: u32) -> &Meta {
        self.at(place).object.meta()
    }

    pub(super) fn find(&self, key: &ObjectKey) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.by_key.find(hash, |place| self.meta(*place).key == *key).copied()
    }

    pub(super) fn find_uid(&self, uid: &Uid) -> Option<u32> {
        let hash = self.hasher.hash_one(uid);
        self.by_uid.find(hash, |place| self.meta(*place).uid == *uid).copied()
    }

    /// The object at a place, if it can be read.
    pub(super) fn readable(&self, place: u32) -> Result<Arc<K>, Unreadable> {
        let object = &self.at(place).object;
        match self.unreadable.get(&place) {
            None => Ok(Arc::clone(object)),
            Some(damage) => Err(Unreadable { key: object.meta().key.clone(), why: Arc::clone(&damage.why) }),
        }
    }

    /// Sorts the objects at some places by whether they can be read.
    pub(super) fn sort(&self, places: impl Iterator<Item = u32>) -> Found<K> {
        let mut found = Found { readable: Vec::with_capacity(places.size_hint().0), unreadable: Vec::new() };
        for place in places {
            match self.readable(place) {
                Ok(object) => found.readable.push(object),
                Err(error) => found.unreadable.push((Arc::clone(&self.at(place).object), error)),
            }
        }
        found
    }

    pub(super) fn index(&self, id: IndexId) -> &Postings<K> {
        assert!(id.store == self.id, "the index must be of the store that is asked");
        &self.indexes[id.at]
    }

    /// The objects that an index holds under a value. Objects that it can't place may belong there, so they count as unreadable.
    pub(super) fn under(&self, index: IndexId, value: &IndexValue) -> Found<K> {
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

    pub(super) fn occupied(&self) -> impl Iterator<Item = u32> {
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
    pub(super) fn put(&mut self, mut object: K, why: Option<Arc<str>>) -> Option<Written<K>> {
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

    pub(super) fn take(&mut self, place: u32) -> Arc<K> {
        self.unlink(place);
        self.unreadable.remove(&place);
        self.free.push(place);
        self.slots[place as usize].take().expect("a found slot is occupied").object
    }
}
