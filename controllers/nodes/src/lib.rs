//! The controllers of nodes and of pods whose node is gone. Each has a folder with its policy, options, RBAC rules and
//! metrics.

pub mod node_ipam;
pub mod pod_gc;
pub mod ttl;
