//! The controllers of the API group `batch`. Each has a folder with its policy, options, RBAC rules and metrics.

pub mod cron_job;
pub mod job;
pub mod ttl_after_finished;
