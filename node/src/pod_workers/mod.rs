//! Pod workers: one per pod, each taking its pod from its start to its end.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;

use crate::container::{PodStatus, RuntimePod};

/// What pod workers have done to pods: the kubelet's four syncs. Each is called for one pod at a time.
#[async_trait]
pub trait PodSyncer: Send + Sync + 'static {
    /// Takes the pod towards its spec. Dropped in the middle when the pod must end or a newer state of it is urgent; it
    /// must leave nothing half done that the next sync does not find.
    ///
    /// # Errors
    /// See [`SyncFailure`].
    async fn sync_pod(
        &self,
        pod: &Arc<Pod>,
        mirror: Option<&Arc<Pod>>,
        status: &PodStatus,
    ) -> Result<Synced, SyncFailure>;

    /// Stops the pod's containers, in at most `grace` seconds where given. Succeeds once nothing of it runs.
    ///
    /// # Errors
    /// Something may still run.
    async fn sync_terminating_pod(
        &self,
        pod: &Arc<Pod>,
        status: &PodStatus,
        grace: Option<i64>,
    ) -> Result<(), SyncFailure>;

    /// Likewise for a pod of which only the runtime knows.
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
    /// It goes on.
    GoesOn,
    /// All its containers ended and none will start again: it is to be terminated.
    Ended,
}

/// Why a sync did not get there. It is tried again.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct SyncFailure {
    /// For the log, and the event `FailedSync` unless it was told otherwise already.
    pub message: String,
    /// How long to wait before the next try, where that is known; else the workers' back-off says.
    pub retry_in: Option<Duration>,
    /// Whether it is already known to the user by an event or a waiting state, so that no more is said of it.
    pub told: bool,
}
