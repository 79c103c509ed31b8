//! One copy of each text that many objects share, forgotten when its last user goes.

use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::LazyLock;

use hashbrown::HashTable;
use parking_lot::Mutex;
use steersman_api::ArcStr;

/// A table of shared texts.
///
/// Texts are counted by their users. What nobody uses any more is swept out whenever the table has grown to twice what
/// was in use at the last sweep, so its size follows what is in use, however many texts come and go.
///
/// Values that may or may not repeat (label values) are shared from their second sighting on: a fixed table of hashes
/// remembers the sightings, so that values seen once leave no trace.
pub struct Interner {
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

/// Threads that decode at once seldom meet in one of so many; a power of two.
const SHARDS: usize = 8;
/// A table smaller than this is never swept.
const SWEEP_FLOOR: usize = 512;
/// Sightings remembered by each shard; a power of two.
const SIGHTINGS: usize = 1024;

struct Shard {
    texts: HashTable<ArcStr>,
    /// Sweep when `texts` has grown to this length.
    sweep_at: usize,
    /// Hashes of texts seen once, each at the place its low bits say; made at the first use.
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
    /// The process's table, which all decoders share.
    pub fn global() -> &'static Self {
        static GLOBAL: LazyLock<Interner> = LazyLock::new(Interner::default);
        &GLOBAL
    }

    /// The shared copy of a text that is likely to repeat: a namespace, a label's key, a node's name, an image.
    pub fn share(&self, text: &str) -> ArcStr {
        if text.is_empty() {
            return ArcStr::new();
        }
        let hash = self.hasher.hash_one(text);
        self.shard(hash).lock().share(text, hash, &self.hasher)
    }

    /// A text that may repeat, or not: a copy of its own at the first sighting, the shared one from then on.
    pub fn share_if_repeated(&self, text: &str) -> ArcStr {
        if text.is_empty() {
            return ArcStr::new();
        }
        let hash = self.hasher.hash_one(text);
        let mut shard = self.shard(hash).lock();
        if shard.seen_before(hash) { shard.share(text, hash, &self.hasher) } else { text.into() }
    }

    /// How many texts the table holds, those that wait for a sweep included.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().texts.len()).sum()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// By the hash's high bits: the low ones place a text within its shard.
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

    /// Whether the text of that hash was seen lately; remembers that it was seen now.
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

/// A text that repeats over many objects, held once by all of them. Declares a projection's field as such.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interned(ArcStr);

impl Interned {
    /// As a shared text.
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

impl std::fmt::Display for Interned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
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
