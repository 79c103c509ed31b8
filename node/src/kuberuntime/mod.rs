//! What is to be done to a pod's sandbox and containers, and under which names the runtime keeps them.
//!
//! Policy is without I/O: [`compute_pod_actions`] decides by the pod, by what the runtime tells of it ([`PodStatus`]) and by
//! what was observed besides. [`manager`] carries it out stage by stage and never decides anew.
//!
//! [`PodStatus`]: crate::container::PodStatus

pub mod actions;
pub mod back_off;
pub mod container_config;
pub mod go_json;
pub mod grace_period;
pub mod helper;
pub mod labels;
pub mod log_path;
pub mod manager;
pub mod prune;
mod resource_claims;
pub mod sandbox_config;
pub mod sync_result;
pub mod termination_order;

pub use actions::{Observations, PodActions, compute_pod_actions};
