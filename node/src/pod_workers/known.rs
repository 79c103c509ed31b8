//! What is told of pods that have a worker.

/// Where a pod is in its life, as its worker sees it (`PodWorkerState` upstream).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lifecycle {
    /// It is taken towards its spec.
    Sync,
    /// Its containers are being stopped.
    Terminating,
    /// Nothing of it runs any more, and nothing will.
    Terminated,
}

impl Lifecycle {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sync, Self::Terminating, Self::Terminated];

    /// As the label `lifecycle` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Terminating => "terminating",
            Self::Terminated => "terminated",
        }
    }
}

/// A pod that workers know (`PodWorkerSync` upstream).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Known {
    /// Where it is in its life.
    pub lifecycle: Lifecycle,
    /// Whether it is in no source any more.
    pub orphan: bool,
    /// Where its spec comes from.
    pub config: KnownConfig,
}

/// What is known of where a pod comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KnownConfig {
    /// Only the runtime told of it, or it was never started.
    None,
    /// The API server.
    Regular,
    /// A manifest.
    Static,
}
