#![doc = include_str!("../README.md")]

pub mod node_ipam;
pub mod node_lifecycle;
pub mod pod_gc;
pub mod taint_eviction;
pub mod ttl;

use steersman_informer::{IndexValue, Interned};

/// The index of pods by the name of their node.
const BY_NODE: &str = "node";

/// The values of [`BY_NODE`] for a pod on this node; none for a pod that has no node yet.
fn node_of(node: &Interned) -> Vec<IndexValue> {
    if node.is_empty() { Vec::new() } else { vec![node.as_arc().clone().into()] }
}
