//! The controllers of the API group `batch`. Each has a folder with its policy, options, RBAC rules and metrics.

pub mod job;
