//! The table of kube-controller-manager's controllers. Each area has a crate, in which each controller has a folder.
//!
//! [`builtin`] is the registry that the manager starts its controllers from.

mod role;
mod table;
#[cfg(test)]
mod tests;

pub use role::cluster_role;
pub use steersman_controllers_batch as batch;
pub use steersman_controllers_network as network;
pub use steersman_controllers_nodes as nodes;
pub use steersman_controllers_workloads as workloads;
pub use table::builtin;
