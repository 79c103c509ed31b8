//! Node-side pod sync, as the kubelet does it, over the Container Runtime Interface.

pub mod admission;
pub mod agent;
mod aggregate;
pub mod allocation;
pub mod cgroups;
pub mod client_certificate;
pub mod configuration;
pub mod container;
pub mod cri;
pub mod downward;
pub mod environment;
pub mod events;
mod grpc;
pub mod images;
pub mod interrupt;
pub mod kernel;
pub mod kuberuntime;
pub mod lease;
pub mod lifecycle;
pub mod logs;
pub mod machine;
pub mod node_info;
pub mod node_status;
pub mod objects;
pub mod pleg;
pub mod pod_config;
pub mod pod_manager;
mod pod_text;
pub mod pod_workers;
pub mod probes;
mod redirect;
mod regular_file;
pub mod resources;
pub mod restart_policy;
pub mod root_dir;
pub mod runtime;
pub mod server;
pub mod startup_latency;
pub mod status_manager;
pub mod sync_loop;
#[cfg(test)]
mod testing;
pub mod tree;
mod unverified;
pub mod volumes;

use steersman_serving::blocking;
