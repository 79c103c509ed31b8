//! Node-side pod sync, as the kubelet does it, over the Container Runtime Interface.

pub mod cri;
pub mod pod_config;
pub mod runtime;
