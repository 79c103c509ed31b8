//! One index of a store: the slots of the objects of each value.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::index::{IndexFn, IndexValue};
use crate::wire::Object;

/// The slots under one value. Up to four take no allocation of their own, and fit into the 24 bytes that a vector takes.
type Slots = SmallVec<[u32; 4]>;

/// The slots, by the values that an index function gives for their objects.
///
/// A slot is either under each of its object's values or, if the function panicked on the object, in `unplaced`.
pub(super) struct Postings<K> {
    pub(super) name: &'static str,
    values: Arc<IndexFn<K>>,
    /// The slots under each value, in ascending order. No list is empty.
    by_value: HashMap<IndexValue, Slots>,
    /// The slots of objects that may belong under any value, in ascending order.
    unplaced: Slots,
}

impl<K: Object> Postings<K> {
    pub(super) fn new(name: &'static str, values: Arc<IndexFn<K>>) -> Self {
        Self { name, values, by_value: HashMap::new(), unplaced: Slots::new() }
    }

    pub(super) fn insert(&mut self, object: &Arc<K>, place: u32) {
        let Self { values, by_value, .. } = self;
        let placed = catch_unwind(AssertUnwindSafe(|| {
            values(object, &mut |value| add(by_value.entry(value).or_default(), place));
        }));
        if placed.is_err() {
            let key = &object.meta().key;
            tracing::error!(index = self.name, %key, "Index function panicked on an object, reads of the index that need the object fail");
            self.sweep(place);
            add(&mut self.unplaced, place);
        }
    }

    pub(super) fn remove(&mut self, object: &Arc<K>, place: u32) {
        if let Ok(at) = self.unplaced.binary_search(&place) {
            self.unplaced.remove(at);
            return;
        }
        let Self { values, by_value, .. } = self;
        let removed = catch_unwind(AssertUnwindSafe(|| {
            values(object, &mut |value| {
                if let Some(slots) = by_value.get_mut(&value) {
                    take(slots, place);
                    if slots.is_empty() {
                        by_value.remove(&value);
                    }
                }
            });
        }));
        // The function did not panic on this object when it was added.
        if removed.is_err() {
            self.sweep(place);
        }
    }

    /// Removes a slot from all values.
    fn sweep(&mut self, place: u32) {
        self.by_value.retain(|_, slots| {
            take(slots, place);
            !slots.is_empty()
        });
    }

    /// The slots under a value.
    pub(super) fn placed(&self, value: &IndexValue) -> &[u32] {
        self.by_value.get(value).map_or(&[], SmallVec::as_slice)
    }

    /// The slots that may belong under any value.
    pub(super) fn unplaced(&self) -> &[u32] {
        &self.unplaced
    }

    /// The memory of the index in bytes, without the texts of its values.
    pub(super) fn bytes(&self) -> usize {
        let allocated = |slots: &Slots| if slots.spilled() { slots.capacity() * size_of::<u32>() } else { 0 };
        let lists = self.by_value.values().map(allocated).sum::<usize>();
        self.by_value.allocation_size() + lists + allocated(&self.unplaced)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &IndexValue> {
        self.by_value.keys()
    }
}

fn add(slots: &mut Slots, place: u32) {
    if let Err(at) = slots.binary_search(&place) {
        slots.insert(at, place);
    }
}

fn take(slots: &mut Slots, place: u32) {
    if let Ok(at) = slots.binary_search(&place) {
        slots.remove(at);
    }
}
