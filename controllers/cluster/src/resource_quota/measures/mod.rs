//! What one object uses of quotas.

mod device_claims;
mod pods;
mod services;
mod volume_claims;

pub(super) use device_claims::{of_device_claim, with_extended_resources};
pub(super) use pods::{has_ended, is_best_effort, of_ended_pod, of_pod, overdue_at};
pub(super) use services::of_service;
pub(super) use volume_claims::of_volume_claim;
