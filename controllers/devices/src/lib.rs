#![doc = include_str!("../README.md")]

mod pod_claim;

pub mod device_taint_eviction;
pub mod resource_claim;

use steersman_controller::controller::SyncError;
use steersman_informer::Unreadable;

/// The error of a sync that needs an object which can't be decoded.
pub(crate) fn unreadable(kind: &str) -> impl Fn(Unreadable) -> SyncError {
    move |object| SyncError::Unreadable(format!("{kind} {}", object.key))
}
