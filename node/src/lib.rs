//! Node-side pod sync, as the kubelet does it, over the Container Runtime Interface.

pub mod container;
pub mod cri;
pub mod kuberuntime;
pub mod pleg;
pub mod pod_config;
pub mod runtime;
pub mod status_manager;
