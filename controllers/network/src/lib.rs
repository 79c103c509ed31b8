//! Controllers of the addresses that services lead to: a folder for each, with its policy, settings, rights and
//! metrics.

pub mod endpoints;
