//! Controllers of the API group `batch`: a folder for each, with its policy, settings, rights and metrics.

pub mod job;
