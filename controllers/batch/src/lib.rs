//! Controllers of jobs, and what is made from or around them. A folder for each controller, with its policy, settings, rights and metrics.

pub mod job;
