//! The node's Lease in `kube-node-lease`: as long as it is renewed the cluster takes the node for alive.

mod heartbeat;
#[cfg(test)]
mod tests;

pub use heartbeat::{Heartbeat, NAMESPACE};
