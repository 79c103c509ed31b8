//! Estimates the memory of a store.

use super::Store;
use super::postings::Postings;
use super::tables::{Slot, Tables};
use crate::wire::Object;

/// The number of objects whose memory is added up before writers may go on.
const COUNTED_AT_ONCE: usize = 4096;
/// What the allocation of an `Arc` holds beside its value: two counters.
const ARC_HEAD: usize = 16;

impl<K: Object> Store<K> {
    /// An estimate of the cache's memory, in bytes: objects, tables and indexes. Of strings that objects share with others,
    /// counts a part.
    ///
    /// Looks at every object, so call it only when somebody asks. Writers wait for a few thousand objects at most.
    pub fn bytes(&self) -> usize {
        let mut bytes = self.tables.read().overhead();
        let mut begin = 0;
        loop {
            let tables = self.tables.read();
            let slots = tables.slots.iter().skip(begin).take(COUNTED_AT_ONCE);
            let seen = slots.len();
            let held = |slot: &Slot<K>| ARC_HEAD + size_of::<K>() + slot.object.heap_bytes();
            bytes += slots.flatten().map(held).sum::<usize>();
            if seen < COUNTED_AT_ONCE {
                return bytes;
            }
            begin += seen;
        }
    }
}

impl<K: Object> Tables<K> {
    /// The memory of everything but the objects, in bytes.
    fn overhead(&self) -> usize {
        let slots = self.slots.capacity() * size_of::<Option<Slot<K>>>();
        let tables = table_bytes(self.by_key.capacity()) + table_bytes(self.by_uid.capacity());
        slots + tables + self.indexes.iter().map(Postings::bytes).sum::<usize>()
    }
}

/// The memory of a hash table with room for this many entries of four bytes: at most seven eighths of its places are taken, and
/// each has one byte more.
fn table_bytes(capacity: usize) -> usize {
    capacity * 8 / 7 * (size_of::<u32>() + 1)
}

#[cfg(test)]
mod tests {
    use steersman_api::{ArcStr, Meta, ObjectKey};

    use crate::store::store;
    use crate::wire::Decoded;
    use crate::wire::meta::MetaOnly;

    #[test]
    fn the_memory_of_a_cache_grows_and_shrinks_with_its_objects() {
        let (mut writer, store) = store::<MetaOnly>();
        assert_eq!(store.bytes(), 0);
        let object = |number: usize| {
            let key = ObjectKey::new(ArcStr::new(), format!("object-{number:05}"));
            Decoded::Good(MetaOnly(Meta { key, ..Meta::default() }))
        };
        for number in 0..10_000 {
            writer.put(object(number));
        }
        let full = store.bytes();
        // Each object's metadata, its name of twelve letters, and the counters of both.
        let least = 10_000 * (size_of::<Meta>() + 12 + 2 * 16);
        assert!((least..3 * least / 2).contains(&full), "{full} of {least}");
        for number in 0..10_000 {
            writer.delete(object(number));
        }
        // The tables keep their room.
        assert!(store.bytes() <= full - least, "{} of {full}", store.bytes());
    }
}
