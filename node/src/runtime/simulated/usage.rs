//! What containers and file systems use, as messages.

use std::time::Duration;

use crate::cri::v1;

/// Where the simulation's file systems are said to be mounted: at a place that every machine has, and can measure.
const MOUNT_POINT: &str = "/";

/// Of a process that uses `millis` thousandths of a core and has run for `ran`.
pub(super) fn cpu(timestamp: i64, ran: Duration, millis: u64) -> v1::CpuUsage {
    let nanos = u64::try_from(ran.as_nanos() * u128::from(millis) / 1000).unwrap_or(u64::MAX);
    v1::CpuUsage {
        timestamp,
        usage_core_nano_seconds: value(nanos),
        usage_nano_cores: value(millis.saturating_mul(1_000_000)),
        psi: None,
    }
}

pub(super) fn memory(timestamp: i64, bytes: u64) -> v1::MemoryUsage {
    v1::MemoryUsage {
        timestamp,
        working_set_bytes: value(bytes),
        usage_bytes: value(bytes),
        rss_bytes: value(bytes),
        ..Default::default()
    }
}

pub(super) fn file_system(timestamp: i64, bytes: u64, inodes: u64) -> v1::FilesystemUsage {
    v1::FilesystemUsage {
        timestamp,
        fs_id: Some(v1::FilesystemIdentifier { mountpoint: MOUNT_POINT.into() }),
        used_bytes: value(bytes),
        inodes_used: value(inodes),
    }
}

/// As the CRI has numbers that may be missing.
pub(super) fn value(value: u64) -> Option<v1::UInt64Value> {
    Some(v1::UInt64Value { value })
}
