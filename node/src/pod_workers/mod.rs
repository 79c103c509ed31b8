//! Pod workers: one per pod, each taking its pod from its start to its end.
//!
//! ```text
//! sync loop --update--> States: what each pod is in --wakes--> a worker per pod --sync--> PodSyncer
//!     ^                                                             |
//!     \-- due pods -- work queue <---- when to look again ---------/
//! ```
//!
//! A pod is *syncing* (taken towards its spec), then *terminating* (nothing new starts, what runs is stopped), then
//! *terminated* (nothing of it runs, what it had is taken away), then *finished*. It never goes back: a pod that is wanted
//! again under the same uid waits until the old one is finished and forgotten. What leads from one state to the next is in
//! [`status`], pure; who may start, and what is forgotten, in [`states`]; tasks are in [`workers`].
//!
//! Pod workers are what all other parts ask whether a pod may have running containers: [`States`] answers, and never waits.

pub mod back_off;
mod grace;
mod known;
mod metrics;
mod names;
pub mod states;
pub mod status;
pub mod statuses;
pub mod syncer;
#[cfg(test)]
mod tests;
pub mod update;
mod work_queue;
mod worker;
pub mod workers;

pub use known::{Known, KnownConfig, Lifecycle};
pub use metrics::{Counts, Metrics};
pub use states::States;
pub use statuses::PodStatuses;
pub use syncer::{PodSyncer, SyncFailure, Synced};
pub use update::{Kill, StatusChange, Target, Termination, Update, UpdateKind};
pub use workers::{Config, KillTimeout, PodWorkers};

use k8s_openapi::api::core::v1::Pod;
use steersman_api::Uid;

/// A pod's uid; empty where it has none.
pub fn uid_of(pod: &Pod) -> Uid {
    Uid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}
