//! What runs containers: two traits in the CRI's terms, and what stands behind them.
//!
//! [`RuntimeService`] and [`ImageService`] are k8s.io/cri-api's interfaces of these names. [`crate::cri::Client`]
//! implements both over a runtime's socket, [`simulated::SimulatedRuntime`] in memory. Either way a call goes through
//! [`Calls`]: it has a deadline of its class, and is counted and timed under the kubelet's metric names.

mod calls;
#[cfg(test)]
mod contract;
mod deadline;
mod error;
mod image_service;
mod metrics;
mod operation;
mod runtime_service;
pub mod simulated;

pub use calls::Calls;
pub use deadline::Deadline;
pub use error::{Code, Error};
pub use image_service::ImageService;
pub use metrics::Metrics;
pub use operation::Operation;
pub use runtime_service::{ContainerEvents, RuntimeService};

/// What a call of a runtime comes to.
pub type Result<T> = std::result::Result<T, Error>;
