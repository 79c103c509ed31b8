#![doc = include_str!("../README.md")]

pub mod garbage_collector;
pub mod namespace;
pub mod resource_quota;
