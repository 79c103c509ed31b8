//! Which resources are served, and what is particular to each.

mod apps;
mod autoscaling;
mod batch;
mod certificates;
mod container;
mod coordination;
mod core;
mod custom;
mod definition;
mod deletion_cost;
mod devices;
mod discovery;
mod fields;
mod kinds;
mod limits;
mod networking;
mod node;
mod pod_spec;
mod policy;
mod priority;
mod rbac;
mod resource;
mod resources;
mod rollout;
mod selector;
mod storage;
mod strategy;
mod unheeded;
mod usage;

pub(crate) use self::core::service_ranges::{
    DEFAULT_RANGE, DEFAULT_SERVICE_CIDR, IP_ADDRESSES, SERVICE_CIDRS,
};
pub(crate) use custom::{resources_of, unserved};
pub(crate) use definition::{DEFINITIONS, awaits_cleanup, cleaned_up, is_built_in};
pub(crate) use fields::address_fault;
pub(crate) use pod_spec::qos_class;
pub(crate) use priority::{SYSTEM_CLASSES, SystemClass};
pub(crate) use resource::{
    ENVELOPE_TAIL, Resource, Subresource, api_version, envelope_head, length_delimited,
};
pub(crate) use resources::{Group, Resources, Version};
pub(crate) use selector::selector_of;
pub(crate) use strategy::{Collection, Context};
pub(crate) use usage::{is_about_usage, usage_resources};
