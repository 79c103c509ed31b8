//! What the downward API tells a pod of itself, as texts: for the environment of its containers and for files.
//!
//! Pure functions. An environment may ask for more than files may: addresses, the node, the service account; and it sees
//! limits of the pod as a whole, where files see the node's.

mod fields;
mod quote;
mod resources;
#[cfg(test)]
mod tests;

pub use fields::{PodAddresses, field_value, metadata_value, one_of_each_family};
pub use resources::{Allocatable, file_resource_value, resource_value};
