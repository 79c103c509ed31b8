//! Controllers of workloads: objects that keep pods running.

pub mod replica_set;
