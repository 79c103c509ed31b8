//! The controllers that set how many pods a workload has. Each has a folder with its policy, options, RBAC rules and
//! metrics.

pub mod horizontal_pod;
