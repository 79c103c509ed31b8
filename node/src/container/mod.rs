//! Pods and containers as a container runtime knows them: what the kubelet calls `kubecontainer`.
//!
//! Everything here is read from the runtime and never from the API server. The PLEG compares [`RuntimePod`]s, which are
//! cheap to list; [`PodStatus`] is what an inspection of one pod yields, and what policy decides by.

pub mod hash;
pub mod id;
pub mod pod;
pub(crate) mod port;
pub mod state;
pub mod status;

pub use hash::hash_container;
pub use id::{ContainerId, InvalidContainerId};
pub use pod::{RuntimeContainer, RuntimePod, RuntimeSandbox};
pub use state::{ContainerState, NamespaceMode, SandboxState};
pub use status::{
    ContainerResources, ContainerStatus, LinuxContainerUser, PodStatus, SandboxNetwork, SandboxStatus,
};
