//! Kinds of the batch group.

pub(super) mod cron_job;
pub(super) mod job;
mod job_status;
mod policies;
mod schedule;
