//! The states that a runtime tells of containers and sandboxes.

use std::fmt;

/// What a container is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContainerState {
    /// Made, but never started.
    Created,
    /// Running now.
    Running,
    /// Ran, and ended.
    Exited,
    /// Anything the runtime cannot tell or that has no name here.
    Unknown,
}

impl ContainerState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Created, Self::Running, Self::Exited, Self::Unknown];

    /// Upstream's word for it, as in messages and in the label `container_state` of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for ContainerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether containers can be put into a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SandboxState {
    /// It stands, with its network.
    Ready,
    /// It was stopped, or died.
    NotReady,
}

impl SandboxState {
    /// The state that the PLEG sees: a ready sandbox is a running container, any other an exited one.
    pub fn as_container_state(self) -> ContainerState {
        match self {
            Self::Ready => ContainerState::Running,
            Self::NotReady => ContainerState::Exited,
        }
    }
}

/// Whose namespace of some kind a sandbox lives in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NamespaceMode {
    /// One for the pod. A runtime that tells nothing means this.
    #[default]
    Pod,
    /// One for each container.
    Container,
    /// The node's.
    Node,
    /// That of a chosen container.
    Target,
}
