#![doc = include_str!("../README.md")]

pub mod bootstrap;
pub mod certificates;
pub mod cluster_role_aggregation;
pub mod legacy_token_cleaner;
pub mod root_ca_publisher;
pub mod service_account;
pub mod service_account_token;
pub mod trust_bundle_publisher;

use steersman_controller::controller::SyncError;
use steersman_informer::Unreadable;

/// Makes the error of a sync that needs an object which can't be decoded.
pub(crate) fn unreadable(kind: &str) -> impl Fn(Unreadable) -> SyncError {
    move |object| SyncError::Unreadable(format!("{kind} {}", object.key))
}
