//! The controllers of services' addresses. Each has a folder with its policy, options, RBAC rules and metrics.

pub mod endpoints;
pub mod membership;
