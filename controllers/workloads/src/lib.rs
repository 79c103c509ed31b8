//! Controllers of workloads: objects that keep pods running.

pub mod deployment;
pub mod disruption;
#[allow(dead_code, reason = "not every controller that needs it is there yet")]
mod pod_template;
pub mod replica_set;
#[allow(dead_code, unused_imports, reason = "not every controller that needs it is there yet")]
mod revisions;
pub mod stateful_set;
