#![doc = include_str!("../README.md")]
//!
//! [`builtin`] returns the registry from which the manager starts its controllers.

mod role;
mod table;
#[cfg(test)]
mod tests;

pub use role::{EVENTS, cluster_role, cluster_role_of, rules};
pub use steersman_controllers_access as access;
pub use steersman_controllers_autoscaling as autoscaling;
pub use steersman_controllers_batch as batch;
pub use steersman_controllers_cluster as cluster;
pub use steersman_controllers_devices as devices;
pub use steersman_controllers_network as network;
pub use steersman_controllers_nodes as nodes;
pub use steersman_controllers_storage as storage;
pub use steersman_controllers_workloads as workloads;
pub use table::builtin;
