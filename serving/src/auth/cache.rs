//! Remembers the results of reviews for a while.

use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use tokio::time::Instant;

/// A digest of what a review was about. So the cache keeps no secret, and all keys have one size.
pub(super) type Key = [u8; SHA256_OUTPUT_LEN];

/// The results of the latest reviews, each until it expires.
pub(super) struct Cache<T> {
    entries: Mutex<LruCache<Key, (Instant, T)>>,
}

impl<T: Clone> Cache<T> {
    /// A cache of at most `size` results.
    pub(super) fn new(size: NonZeroUsize) -> Self {
        Self { entries: Mutex::new(LruCache::new(size)) }
    }

    pub(super) fn get(&self, key: &Key) -> Option<T> {
        let mut entries = self.entries.lock();
        let (until, found) = entries.get(key)?;
        if Instant::now() < *until {
            return Some(found.clone());
        }
        entries.pop(key);
        None
    }

    pub(super) fn put(&self, key: Key, result: T, ttl: Duration) {
        if !ttl.is_zero() {
            self.entries.lock().put(key, (Instant::now() + ttl, result));
        }
    }
}

/// The key of a list of texts. No two lists have the same key.
pub(super) fn key<'a>(texts: impl IntoIterator<Item = &'a str>) -> Key {
    let mut context = Context::new(&SHA256);
    for text in texts {
        context.update(&text.len().to_le_bytes());
        context.update(text.as_bytes());
    }
    let mut key = [0; SHA256_OUTPUT_LEN];
    key.copy_from_slice(context.finish().as_ref());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_said_holds_for_its_time_and_while_there_is_room() {
        let cache = Cache::new(NonZeroUsize::new(2).unwrap());
        let [a, b, c] = ["a", "b", "c"].map(|text| key([text]));
        cache.put(a, 1, Duration::from_secs(10));
        cache.put(b, 2, Duration::from_secs(20));
        assert_eq!((cache.get(&a), cache.get(&b)), (Some(1), Some(2)));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!((cache.get(&a), cache.get(&b)), (None, Some(2)));
        cache.put(c, 3, Duration::ZERO);
        assert_eq!(cache.get(&c), None);
        cache.put(a, 4, Duration::from_secs(1));
        cache.put(c, 5, Duration::from_secs(1));
        assert_eq!((cache.get(&a), cache.get(&b), cache.get(&c)), (Some(4), None, Some(5)));
    }

    #[test]
    fn texts_can_not_be_shifted_between_places() {
        assert_ne!(key(["ab", "c"]), key(["a", "bc"]));
        assert_ne!(key(["a"]), key(["a", ""]));
        assert_eq!(key(["a", "b"]), key(["a", "b"]));
    }
}
