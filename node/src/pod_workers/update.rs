//! What a pod worker is told.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use steersman_api::Uid;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::uid_of;
use crate::container::RuntimePod;
use crate::pod_config::annotations::full_name;

/// Something that a pod worker should see (`UpdatePodOptions` upstream).
#[derive(Debug)]
pub struct Update {
    /// Of what kind it is.
    pub kind: UpdateKind,
    /// Of which pod.
    pub target: Target,
    /// For [`UpdateKind::Kill`]: how. Ignored while the pod is not terminating.
    pub kill: Option<Kill>,
    /// When it was made, so that it can be measured how long it took to be carried out.
    pub since: Option<Instant>,
}

/// The kinds of updates (`SyncPodType` upstream).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpdateKind {
    /// The pod is new. For a pod that is terminating: it is wanted again.
    Create,
    /// The pod, or its mirror, changed.
    Update,
    /// Nothing is new; the pod should be looked at.
    Sync,
    /// The pod is to be terminated.
    Kill,
}

impl UpdateKind {
    /// As the label `operation_type` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Sync => "sync",
            Self::Kill => "kill",
        }
    }
}

/// What an update is about.
#[derive(Debug, Clone)]
pub enum Target {
    /// A pod as its source has it.
    Pod {
        /// The pod; never a mirror.
        pod: Arc<Pod>,
        /// Its mirror, if it is a static pod that has one.
        mirror: Option<Arc<Pod>>,
    },
    /// A pod that only the runtime knows. It can only be killed.
    Runtime(RuntimePod),
}

impl Target {
    /// The pod's uid.
    pub fn uid(&self) -> Uid {
        match self {
            Self::Pod { pod, .. } => uid_of(pod),
            Self::Runtime(pod) => pod.uid.clone(),
        }
    }

    /// `name_namespace`.
    pub fn full_name(&self) -> String {
        match self {
            Self::Pod { pod, .. } => full_name(pod),
            Self::Runtime(pod) => format!("{}_{}", pod.name, pod.namespace),
        }
    }

    /// The pod, where a source gave it.
    pub fn pod(&self) -> Option<&Arc<Pod>> {
        match self {
            Self::Pod { pod, .. } => Some(pod),
            Self::Runtime(_) => None,
        }
    }
}

/// How a pod is to be killed (`KillPodOptions` upstream).
#[derive(Debug, Default)]
pub struct Kill {
    /// It is evicted: what it has on the node is taken away sooner.
    pub evict: bool,
    /// Seconds of grace, if not what the pod says. A grace that was given can only become shorter.
    pub grace: Option<i64>,
    /// What becomes of the pod's status. Of several kills the last one says.
    pub status: Option<StatusChange>,
    /// Told, or dropped, when nothing of the pod runs any more.
    pub done: Option<oneshot::Sender<()>>,
}

/// Changes the status of a pod that is killed, for instance to `Failed` with the reason `Evicted`.
#[derive(Clone)]
pub struct StatusChange(Arc<dyn Fn(&mut PodStatus) + Send + Sync>);

impl StatusChange {
    /// That change.
    pub fn new(change: impl Fn(&mut PodStatus) + Send + Sync + 'static) -> Self {
        Self(Arc::new(change))
    }

    /// Carries it out.
    pub fn apply(&self, status: &mut PodStatus) {
        (self.0)(status);
    }
}

impl fmt::Debug for StatusChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StatusChange")
    }
}

/// How a pod's containers are to be stopped.
#[derive(Debug, Clone, Default)]
pub struct Termination {
    /// Seconds of grace, at least 1. None for a pod whose containers ended by themselves, see [`super::Synced::Ended`].
    pub grace: Option<i64>,
    /// What becomes of the pod's status.
    pub status: Option<StatusChange>,
}

impl Update {
    /// An update of a pod as its source has it, made now.
    pub fn of(kind: UpdateKind, pod: Arc<Pod>, mirror: Option<Arc<Pod>>) -> Self {
        Self { kind, target: Target::Pod { pod, mirror }, kill: None, since: Some(Instant::now()) }
    }

    /// To kill a pod as its spec says.
    pub fn kill(pod: Arc<Pod>) -> Self {
        Self::of(UpdateKind::Kill, pod, None)
    }

    /// To kill a pod that only the runtime knows, in a second.
    pub fn kill_runtime_pod(pod: RuntimePod) -> Self {
        let kill = Some(Kill { grace: Some(1), ..Kill::default() });
        Self { kind: UpdateKind::Kill, target: Target::Runtime(pod), kill, since: None }
    }
}
