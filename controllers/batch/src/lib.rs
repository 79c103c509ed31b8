#![doc = include_str!("../README.md")]

pub mod cron_job;
pub mod job;
pub mod ttl_after_finished;
