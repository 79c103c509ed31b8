#![doc = include_str!("../README.md")]

pub mod daemon_set;
pub mod deployment;
pub mod disruption;
mod pod_template;
pub mod replica_set;
mod revisions;
pub mod stateful_set;
