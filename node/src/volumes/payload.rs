//! What a volume's files hold.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A volume's files, by their paths in it.
pub(super) type Payload = BTreeMap<String, File>;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct File {
    /// What is in it.
    pub(super) data: Vec<u8>,
    /// Its permissions.
    pub(super) mode: u32,
    /// The user that it belongs to, if not the node's own.
    pub(super) owner: Option<u32>,
}

/// A number that differs for what differs.
pub(super) fn digest(payload: &Payload) -> u64 {
    let mut hasher = DefaultHasher::new();
    payload.hash(&mut hasher);
    hasher.finish()
}

/// A file's permissions, from what the API calls a mode.
pub(super) fn mode(mode: i32) -> u32 {
    mode.cast_unsigned() & 0o7777
}

/// The mode of a volume's files that have none of their own.
pub(super) fn default_mode(given: Option<i32>) -> Result<u32, String> {
    given.map(mode).ok_or_else(|| "no defaultMode used, not even the default value for it".to_owned())
}
