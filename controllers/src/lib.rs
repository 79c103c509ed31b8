//! The controllers of kube-controller-manager: a crate for each area, a folder in it for each controller, and on top the
//! table of all of them.
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
pub use table::builtin;
