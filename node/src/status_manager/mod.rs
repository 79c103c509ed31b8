//! The status manager: what the API server is told of this node's pods.
//!
//! Pod workers [`generate`](generate::generate) a status from what the runtime has and [`set`](StatusManager::set) it;
//! the cache keeps the newest one of each pod, with a version; [`run`](StatusManager::run) writes those of which the API
//! server has an older one, and at last deletes pods that ended. All decisions are pure: conditions, phase, statuses of
//! containers, what is merged with what others wrote, the bytes of the patch, which statuses are due.

mod cache;
pub mod conditions;
pub mod generate;
mod manager;
mod merge;
pub mod metrics;
mod normalize;
mod patch;
pub mod phase;
pub mod pods;
mod resources;
pub mod statuses;
pub(crate) mod strategic;
mod terminate;
#[cfg(test)]
mod tests;

pub use generate::{Eviction, Observed, generate};
pub use manager::{Set, StatusManager};
pub use metrics::Metrics;
pub use pods::{PodDeletionSafety, Pods};
