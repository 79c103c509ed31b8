//! Node-side pod sync, as the kubelet does it, over the Container Runtime Interface.

mod blocking;
pub mod cgroups;
pub mod configuration;
pub mod container;
pub mod cri;
pub mod downward;
pub mod environment;
pub mod events;
pub mod images;
pub mod kuberuntime;
pub mod lease;
pub mod lifecycle;
pub mod machine;
pub mod node_info;
pub mod node_status;
pub mod objects;
pub mod pleg;
pub mod pod_config;
pub mod pod_manager;
pub mod pod_workers;
pub mod probes;
pub mod resources;
pub mod root_dir;
pub mod runtime;
pub mod status_manager;
pub mod sync_loop;
pub mod volumes;
