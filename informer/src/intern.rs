//! Interns strings: objects share one copy of each, which is freed after its last user.

use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::LazyLock;

use hashbrown::HashTable;
use parking_lot::Mutex;
use steersman_api::ArcStr;

/// A table of shared strings.
///
/// Strings are reference-counted. Whenever the table has grown to twice the number of strings that were in use at the last
/// sweep, it drops the unused ones. So its size follows use, however many strings come and go.
///
/// Strings that may or may not repeat (label values) are shared from their second occurrence on: a table of hashes, of fixed
/// size, remembers occurrences, so that strings that occur once take no room.
pub struct Interner {
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

/// Number of shards: enough that threads which decode concurrently rarely lock the same one. A power of two.
const SHARDS: usize = 8;
/// A shard with fewer strings than this is never swept.
const SWEEP_FLOOR: usize = 512;
/// The length of the longest string that is shared, in bytes: names and label values are shorter. It bounds what unused strings keep until
/// a sweep: a condition's message can be as long as an object.
const LONGEST: usize = 1024;
/// The number of hashes that each shard remembers. A power of two.
const SIGHTINGS: usize = 1024;

struct Shard {
    texts: HashTable<ArcStr>,
    /// Sweep when `texts` has grown to this length.
    sweep_at: usize,
    /// Hashes of strings that occurred once, at the place that their low bits give. Allocated at the first use.
    sightings: Box<[u32]>,
}

impl Default for Interner {
    fn default() -> Self {
        let shard = || {
            Mutex::new(Shard { texts: HashTable::new(), sweep_at: SWEEP_FLOOR, sightings: Box::default() })
        };
        Self { hasher: RandomState::new(), shards: std::array::from_fn(|_| shard()) }
    }
}

impl Interner {
    /// The table of the process. All decoders use it.
    pub fn global() -> &'static Self {
        static GLOBAL: LazyLock<Interner> = LazyLock::new(Interner::default);
        &GLOBAL
    }

    /// The shared copy of a string that is likely to repeat: a namespace, a label's key, a node's name, an image.
    pub fn share(&self, text: &str) -> ArcStr {
        if text.is_empty() || text.len() > LONGEST {
            return text.into();
        }
        let hash = self.hasher.hash_one(text);
        self.shard(hash).lock().share(text, hash, &self.hasher)
    }

    /// A copy of a string that may or may not repeat: an unshared copy at the first occurrence, the shared one from then on.
    pub fn share_if_repeated(&self, text: &str) -> ArcStr {
        if text.is_empty() || text.len() > LONGEST {
            return text.into();
        }
        let hash = self.hasher.hash_one(text);
        let mut shard = self.shard(hash).lock();
        if shard.seen_before(hash) { shard.share(text, hash, &self.hasher) } else { text.into() }
    }

    /// The number of strings in the table, including unused ones that no sweep has dropped yet.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().texts.len()).sum()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shard of a hash, by its high bits. The low bits place a string within its shard.
    #[allow(clippy::cast_possible_truncation)]
    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 56) as usize % SHARDS]
    }
}

impl Shard {
    fn share(&mut self, text: &str, hash: u64, hasher: &RandomState) -> ArcStr {
        if let Some(shared) = self.texts.find(hash, |shared| shared == text) {
            return shared.clone();
        }
        if self.texts.len() >= self.sweep_at {
            self.texts.retain(|text| ArcStr::strong_count(text).is_none_or(|users| users > 1));
            self.sweep_at = (2 * self.texts.len()).max(SWEEP_FLOOR);
            self.texts.shrink_to(self.sweep_at, |text| hasher.hash_one(text.as_str()));
        }
        let shared = ArcStr::from(text);
        self.texts.insert_unique(hash, shared.clone(), |text| hasher.hash_one(text.as_str()));
        shared
    }

    /// Whether a string with this hash occurred recently. Records this occurrence.
    #[allow(clippy::cast_possible_truncation)]
    fn seen_before(&mut self, hash: u64) -> bool {
        if self.sightings.is_empty() {
            self.sightings = vec![0; SIGHTINGS].into();
        }
        let print = (hash >> 16) as u32 | 1;
        let place = &mut self.sightings[hash as usize % SIGHTINGS];
        std::mem::replace(place, print) == print
    }
}

/// The type of a projection's field whose string repeats over many objects. All objects share one copy.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interned(ArcStr);

impl Interned {
    /// The shared string.
    pub fn as_arc(&self) -> &ArcStr {
        &self.0
    }
}

impl From<&str> for Interned {
    fn from(text: &str) -> Self {
        Self(Interner::global().share(text))
    }
}

impl Deref for Interned {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Interned {
    fn eq(&self, other: &str) -> bool {
        self.0 == *other
    }
}

impl PartialEq<&str> for Interned {
    fn eq(&self, other: &&str) -> bool {
        self.0 == **other
    }
}

impl std::fmt::Debug for Interned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl serde::Serialize for Interned {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl std::fmt::Display for Interned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The type of a projection's field whose string may or may not repeat, such as a condition's message. Objects share one copy from the
/// string's second occurrence on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repeated(ArcStr);

impl Repeated {
    /// The string.
    pub fn as_arc(&self) -> &ArcStr {
        &self.0
    }
}

impl From<&str> for Repeated {
    fn from(text: &str) -> Self {
        Self(Interner::global().share_if_repeated(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_is_held_once() {
        let interner = Interner::default();
        let (a, b) = (interner.share("node-1"), interner.share("node-1"));
        assert!(ArcStr::ptr_eq(&a, &b));
        assert_eq!(interner.len(), 1);
    }

    #[test]
    fn a_text_that_may_repeat_is_shared_from_its_second_sighting() {
        let interner = Interner::default();
        let first = interner.share_if_repeated("web");
        assert_eq!(interner.len(), 0);
        let (second, third) = (interner.share_if_repeated("web"), interner.share_if_repeated("web"));
        assert!(!ArcStr::ptr_eq(&first, &second));
        assert!(ArcStr::ptr_eq(&second, &third));
    }

    #[test]
    fn a_long_text_is_freed_with_its_last_user() {
        let interner = Interner::default();
        let text = "x".repeat(LONGEST + 1);
        for _ in 0..3 {
            assert_eq!(ArcStr::strong_count(&interner.share_if_repeated(&text)), Some(1));
            assert_eq!(ArcStr::strong_count(&interner.share(&text)), Some(1));
        }
        assert!(interner.is_empty());
    }

    #[test]
    fn a_million_texts_that_come_and_go_leave_no_trace() {
        let interner = Interner::default();
        let kept = interner.share("kept");
        for i in 0..1_000_000 {
            interner.share(&format!("pod-{i}"));
        }
        assert!(interner.len() <= SHARDS * SWEEP_FLOOR, "{}", interner.len());
        assert!(ArcStr::ptr_eq(&kept, &interner.share("kept")));
    }

    #[test]
    fn texts_in_use_survive_every_sweep() {
        let interner = Interner::default();
        let kept: Vec<_> = (0..20_000).map(|i| interner.share(&format!("kept-{i}"))).collect();
        for i in 0..50_000 {
            interner.share(&format!("gone-{i}"));
        }
        for (i, text) in kept.iter().enumerate() {
            assert!(ArcStr::ptr_eq(text, &interner.share(&format!("kept-{i}"))));
        }
    }
}
