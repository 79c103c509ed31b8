//! The Node object: registered, kept true, and known to the rest of the node.
//!
//! Each part of the status has a setter of its own, pure: [`addresses`], [`capacity`], [`system_info`], [`images`],
//! [`conditions`]. [`NodeStatus`] observes the machine and the runtime, has all of them set, and writes what changed.
//! [`LiveNode`] is the Node as others may read it; [`Inventory`] is what the runtime told of itself, and [`pressure`] whether
//! the machine runs short of something.

pub mod addresses;
pub mod capacity;
mod change;
pub mod conditions;
pub mod events;
pub mod images;
mod initial;
mod inventory;
mod live_node;
mod manager;
pub mod metrics;
mod patch;
pub mod pressure;
mod register;
mod report;
mod runtime_watch;
mod settings;
pub mod system_info;
#[cfg(test)]
mod tests;
mod volumes_in_use;

pub use inventory::{Inventory, RuntimeInventory};
pub use live_node::LiveNode;
pub use manager::{Error, NodeStatus, Parts};
pub use metrics::Metrics;
pub use runtime_watch::watch_runtime;
pub use settings::Settings;
