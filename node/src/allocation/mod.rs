//! What pods were promised of the node, and changes to it while they run.
//!
//! A pod's spec says what is wanted. What its containers *have been allocated* is kept here: it is what the pod was admitted
//! with, or the newest resize that fitted. All else goes by the allocation: what is free for others, what the pod is run
//! with, and what its status tells. What containers *were given* so far (actuated), the runtime's manager keeps.
//!
//! ```text
//! spec changes --> Resizes: pending --fits?--> allocated --> a sync changes what runs --> actuated
//!                            ^  |
//!                            +--+ Deferred: tried again as pods go or shrink, and every three minutes
//! ```
//!
//! Both are kept on disk, in upstream's format and under its names ([`checkpoint`]), so that a restart resizes nothing twice,
//! forgets no resize that was begun, and takes over from a kubelet.

pub mod checkpoint;
mod conditions;
mod messages;
pub mod metrics;
mod order;
mod resizes;
pub mod resources;
mod store;
#[cfg(test)]
mod tests;

pub use metrics::Metrics;
pub use resizes::{Resizes, Retried, Trigger};
pub use resources::PodResources;
pub use store::{Error, Store};
