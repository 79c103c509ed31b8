//! The controllers that keep a cluster clean, over every kind that the API server knows. Each has a folder with its policy,
//! options, RBAC rules and metrics.

pub mod garbage_collector;
pub mod namespace;
pub mod resource_quota;
