//! Which resources are served, and what is particular to each.

mod apps;
mod autoscaling;
mod batch;
mod core;
mod custom;
mod kinds;
mod others;
mod pod_spec;
mod priority;
mod resource;
mod resources;
mod strategy;

pub(crate) use custom::{DEFINITIONS, resources_of, table_of};
pub(crate) use priority::{SYSTEM_CLASSES, SystemClass};
pub(crate) use resource::{
    ENVELOPE_TAIL, Resource, Subresource, api_version, envelope_head, length_delimited,
};
pub(crate) use resources::{Group, Resources, Version};
pub(crate) use strategy::{Collection, Context};
