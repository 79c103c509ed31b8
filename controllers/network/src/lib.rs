//! Controllers of where services lead. A folder for each controller, with its policy, settings, rights and metrics.

pub mod endpoints;
