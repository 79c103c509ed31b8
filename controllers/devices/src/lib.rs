//! The controllers of resource claims and of the devices that are allocated to them. Each has a folder with its policy,
//! options, RBAC rules and metrics.

mod pod_claim;

pub mod device_taint_eviction;
pub mod resource_claim;

use steersman_controller::controller::SyncError;
use steersman_informer::Unreadable;

/// The error of a sync that needs an object which can't be decoded.
pub(crate) fn unreadable(kind: &str) -> impl Fn(Unreadable) -> SyncError {
    move |object| SyncError::Unreadable(format!("{kind} {}", object.key))
}
