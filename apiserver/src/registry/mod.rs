//! Which resources are served, and what is particular to each.

mod kinds;
mod resource;
mod resources;
mod strategy;

pub(crate) use resource::{ENVELOPE_TAIL, Resource, api_version, envelope_head, length_delimited};
pub(crate) use resources::{Group, Resources, Version};
pub(crate) use strategy::{Collection, Context};
