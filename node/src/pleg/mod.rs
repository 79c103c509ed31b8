//! The pod lifecycle event generator: notices what happens to containers by listing them again and again.
//!
//! ```text
//! PodLister --list--> Generic: compare with what was seen before --inspect what changed--> StatusCache --> pod workers
//!                                                                \--------- events --------> sync loop
//! ```
//!
//! [`Generic`] compares and decides, without I/O or clock. [`Pleg`] lists every second, and at once where somebody asks for
//! one pod ([`PlegHandle::request_relist`], which container events do as well, by way of [`hints`]: they are never believed).
//! Every pod is inspected by itself: one whose inspection fails or hangs is inspected again, and delays neither the list nor
//! any other pod.

pub mod cache;
pub mod event;
mod generic;
pub mod health;
pub mod hints;
mod metrics;
mod relist;

use std::sync::Arc;

pub use cache::{StatusCache, StatusReader};
pub use event::{EventKind, PodLifecycleEvent};
pub use generic::{Generic, Inspection, Listed};
pub use health::{Health, Unhealthy};
pub use metrics::Metrics;
pub use relist::{Config, Pleg, PlegHandle, PodLister};

/// Why the runtime could not be asked. Shared, since all who wait for a pod's status get it.
pub type RuntimeError = Arc<dyn std::error::Error + Send + Sync>;

/// Why a pod's status is not to be had. The caller should try again at its next sync, except after
/// [`Stopped`](Error::Stopped).
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The runtime could not inspect the pod. It is tried again at each relist.
    #[error("inspect the pod: {0}")]
    Inspect(#[source] RuntimeError),
    /// The generator has ended: no newer status will come.
    #[error("wait for the pod's status: the pod lifecycle event generator has stopped")]
    Stopped,
}

/// The metrics could not be set up. The start should end with it: it is a mistake in the program.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// A metric's description was refused.
    #[error("describe the metrics of the pod lifecycle event generator")]
    Describe(#[source] prometheus::Error),
    /// The registry refused a metric; for instance it has one of that name already.
    #[error("register the metrics of the pod lifecycle event generator")]
    Register(#[source] prometheus::Error),
}
