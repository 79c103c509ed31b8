//! What pod workers have done to pods.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;

use super::update::Termination;
use crate::container::{PodStatus, RuntimePod};
use crate::interrupt::Interrupt;
use crate::kuberuntime::sync_result::PodSyncResult;

/// How long until the next try where the network is not ready, which passes soon.
const NETWORK_RETRY: Duration = Duration::from_secs(1);

/// What pod workers have done to pods: the kubelet's four syncs. Each is called for one pod at a time, and any of them may
/// panic without harm to other pods.
#[async_trait]
pub trait PodSyncer: Send + Sync + 'static {
    /// Takes the pod towards its spec. The worker interrupts it when the pod must end: the sync is then dropped, though not
    /// in a part that it marks as [whole](Interrupt::whole). It must leave nothing half done that the next sync does not
    /// find.
    ///
    /// # Errors
    /// See [`SyncFailure`].
    async fn sync_pod(
        &self,
        pod: &Arc<Pod>,
        mirror: Option<&Arc<Pod>>,
        status: &PodStatus,
        interrupt: &Interrupt,
    ) -> Result<Synced, SyncFailure>;

    /// Stops the pod's containers, as [`Termination`] says. Succeeds once nothing of it runs. Dropped in the middle when the
    /// grace is shortened, and then called again with the shorter one.
    ///
    /// # Errors
    /// Something may still run.
    async fn sync_terminating_pod(
        &self,
        pod: &Arc<Pod>,
        status: &PodStatus,
        termination: &Termination,
    ) -> Result<(), SyncFailure>;

    /// Likewise for a pod of which only the runtime knows; in a second of grace.
    ///
    /// # Errors
    /// Something may still run.
    async fn sync_terminating_runtime_pod(&self, pod: &RuntimePod) -> Result<(), SyncFailure>;

    /// Takes away what the pod, of which nothing runs any more, has on the node: volumes, cgroups, registrations; and tells
    /// its last status.
    ///
    /// # Errors
    /// Something is still there.
    async fn sync_terminated_pod(&self, pod: &Arc<Pod>, status: &PodStatus) -> Result<(), SyncFailure>;
}

/// What a sync that succeeded says of the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synced {
    /// It goes on, and nothing was done to it.
    GoesOn,
    /// It goes on, and something was done in the runtime: the pod is listed at once, rather than at the next relist.
    Changed,
    /// All its containers ended and none will start again: it is to be terminated.
    Ended,
}

/// Why a sync did not get there. It is tried again.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct SyncFailure {
    /// For the log.
    pub message: String,
    /// How long to wait before the next try, where that is known; else the workers' back-off says.
    pub retry_in: Option<Duration>,
    /// Whether it is already known to the user by an event or a waiting state, so that it is not an error in the log.
    pub told: bool,
}

impl SyncFailure {
    /// One of which nobody was told, to be tried again after the workers' back-off.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry_in: None, told: false }
    }

    /// The network of the runtime is not ready, for this reason; an event has told it.
    pub fn network_not_ready(reason: impl std::fmt::Display) -> Self {
        let message = format!("network is not ready: {reason}");
        Self { message, retry_in: Some(NETWORK_RETRY), told: true }
    }

    /// What a sync of the runtime failed with, if it did. Of several waits the shortest counts; a failure without one does
    /// not shorten it. It was told where each of its steps is of a kind that tells: a container's waiting state, an event.
    pub fn of(result: &PodSyncResult) -> Option<Self> {
        let message = result.error_text()?;
        let retry_in = result.failures().filter_map(|step| step.error.as_ref()?.retry_in).min();
        let told = result.failures().all(|step| step.action.tells_of_failures());
        Some(Self { message, retry_in, told })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kuberuntime::sync_result::{SyncAction, SyncError};

    #[test]
    fn a_failure_was_told_where_whoever_does_such_steps_tells_of_them() {
        let of = |actions: &[SyncAction]| {
            let mut result = PodSyncResult::default();
            for action in actions {
                result.failed(*action, "p", SyncError::new("Reason", "why"));
            }
            SyncFailure::of(&result)
        };
        use SyncAction::{ConfigPodSandbox, CreatePodSandbox, KillContainer, KillPodSandbox, StartContainer};
        assert!(of(&[]).is_none());
        for (actions, told) in [
            (&[StartContainer][..], true),
            (&[CreatePodSandbox], true),
            (&[ConfigPodSandbox], false),
            (&[KillPodSandbox], false),
            (&[StartContainer, KillContainer], false),
        ] {
            assert_eq!(of(actions).unwrap().told, told, "{actions:?}");
        }
    }
}
