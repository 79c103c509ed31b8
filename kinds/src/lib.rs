//! What controllers cache of each kind: a file each. A controller says with `keep!` which groups of fields it reads.

pub mod condition;
pub mod containers;
pub mod endpoints;
pub mod ip;
pub mod job;
pub mod node;
pub mod pod;
pub mod ports;
pub mod selector;
pub mod service;

#[cfg(test)]
mod tests;
