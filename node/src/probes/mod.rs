//! What probes found of containers.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use steersman_api::Uid;

use crate::container::ContainerId;
use crate::kuberuntime::actions::ProbeResult;

/// The results of one kind of probe, by container. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Results {
    by_container: Arc<RwLock<HashMap<ContainerId, ProbeResult>>>,
}

/// A container's result changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeUpdate {
    /// Of which pod.
    pub pod: Uid,
    /// Of which container.
    pub container: ContainerId,
    /// Which probe.
    pub kind: ProbeKind,
    /// What it found.
    pub result: ProbeResult,
}

/// The kinds of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProbeKind {
    /// Whether the container lives.
    Liveness,
    /// Whether it can be sent requests.
    Readiness,
    /// Whether it has started.
    Startup,
}

impl Results {
    /// The last result of that container.
    pub fn get(&self, container: &ContainerId) -> Option<ProbeResult> {
        self.by_container.read().get(container).copied()
    }

    /// All of them.
    pub fn all(&self) -> HashMap<ContainerId, ProbeResult> {
        self.by_container.read().clone()
    }

    /// Sets a result; says whether it is another than before.
    pub fn set(&self, container: &ContainerId, result: ProbeResult) -> bool {
        self.by_container.write().insert(container.clone(), result) != Some(result)
    }

    /// Forgets a container.
    pub fn remove(&self, container: &ContainerId) {
        self.by_container.write().remove(container);
    }
}
