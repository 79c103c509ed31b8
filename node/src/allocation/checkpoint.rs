//! The files that say what pods have, in upstream's format. Pure.
//!
//! `{"data": "...", "checksum": n}`, where `data` is JSON of its own: `{"entries": {"<uid>": {...}}}`. The checksum is 32-bit
//! FNV-1a of `data` as Go's `spew` prints it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steersman_api::Uid;

use super::PodResources;

/// What pods were allocated: its file in the root folder.
pub const ALLOCATED_PODS_STATE: &str = "allocated_pods_state";
/// What they were given: its file there.
pub const ACTUATED_PODS_STATE: &str = "actuated_pods_state";

/// Of all pods.
pub type Entries = BTreeMap<Uid, PodResources>;

/// Why a file tells nothing.
#[derive(Debug, thiserror::Error)]
pub enum Corrupt {
    /// It is no checkpoint.
    #[error("it does not read: {0}")]
    Json(#[from] serde_json::Error),
    /// It was changed, or cut off.
    #[error("checkpoint is corrupted: its checksum is {found}, not {expected}")]
    Checksum {
        /// Of the data.
        found: u32,
        /// As the file has it.
        expected: u64,
    },
}

#[derive(Serialize, Deserialize)]
struct Checkpoint {
    data: String,
    checksum: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct Data {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    entries: BTreeMap<String, PodResources>,
}

/// The file's content.
pub fn encode(entries: &Entries) -> Vec<u8> {
    let entries = entries.iter().map(|(uid, resources)| (uid.to_string(), resources.clone())).collect();
    let data = serde_json::to_string(&Data { entries }).expect("plain members must serialize");
    let checksum = checksum(&data).into();
    serde_json::to_vec(&Checkpoint { data, checksum }).expect("plain members must serialize")
}

/// What the file's content says.
///
/// # Errors
/// See [`Corrupt`]. It must not be taken for a file that says nothing.
pub fn decode(content: &[u8]) -> Result<Entries, Corrupt> {
    let checkpoint: Checkpoint = serde_json::from_slice(content)?;
    let found = checksum(&checkpoint.data);
    if u64::from(found) != checkpoint.checksum {
        return Err(Corrupt::Checksum { found, expected: checkpoint.checksum });
    }
    let data: Data = serde_json::from_str(&checkpoint.data)?;
    Ok(data.entries.into_iter().map(|(uid, resources)| (Uid::from(uid.as_str()), resources)).collect())
}

fn checksum(data: &str) -> u32 {
    "(string)"
        .bytes()
        .chain(data.bytes())
        .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
