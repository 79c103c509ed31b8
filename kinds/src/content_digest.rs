//! Digests of contents that a cache need not hold.

use std::hash::{DefaultHasher, Hasher};

/// A digest of some bytes, by which a controller sees that an object has other contents than it should. It is good for
/// comparisons within one process only, and not against people who look for two contents of one digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentDigest(u64);

impl ContentDigest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        Self(hasher.finish())
    }
}
