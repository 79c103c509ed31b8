//! What probes find of containers.
//!
//! A [`ProbeManager`] has a task for each probe of each pod it was given. A task asks every period what the pod's status
//! says of its container; what follows is decided without I/O (`worker`): wait, end, or probe. Results are kept by
//! container in [`Results`], and each that changes is told through [`ProbeUpdates`]. Liveness and startup failures kill
//! containers, which is for others to do; readiness and startup become part of the pod's status by
//! [`ProbeManager::update_container_status`].

mod exec;
mod grpc;
mod http;
mod manager;
mod metrics;
mod prober;
mod readiness;
mod tcp;
#[cfg(test)]
mod tests;
mod updates;
mod worker;

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Probe};
use parking_lot::RwLock;
use steersman_api::Uid;

use crate::container::ContainerId;
use crate::kuberuntime::actions::ProbeResult;

pub use manager::{PodStatuses, ProbeManager};
pub use metrics::{Metrics, MetricsError};
pub use updates::ProbeUpdates;

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

impl ProbeKind {
    /// All kinds, in the order in which a container's probes begin.
    pub const ALL: [Self; 3] = [Self::Startup, Self::Readiness, Self::Liveness];

    /// As events and metrics have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
            Self::Startup => "Startup",
        }
    }

    /// The container's probe of this kind.
    pub fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
            Self::Startup => container.startup_probe.as_ref(),
        }
    }
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
