//! Stopping whole pods.

use std::collections::BTreeSet;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use steersman_api::Uid;
use tracing::error;

use super::Kuberuntime;
use super::kill::{Kill, Turns};
use crate::container::{ContainerId, ContainerState, PodStatus, RuntimePod};
use crate::kuberuntime::actions::KillReason;
use crate::kuberuntime::sync_result::{PodSyncResult, SyncAction, SyncError};
use crate::kuberuntime::termination_order::TerminationOrder;

/// What is to be stopped of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunningPod {
    /// The pod's uid.
    pub uid: Uid,
    /// The containers that run, with their names.
    pub containers: Vec<(ContainerId, String)>,
    /// All sandboxes, ready or not: one that is not may still hold a network.
    pub sandboxes: Vec<String>,
}

impl From<&PodStatus> for RunningPod {
    fn from(status: &PodStatus) -> Self {
        let running = status.running();
        Self {
            uid: status.uid.clone(),
            containers: running.map(|container| (container.id.clone(), container.name.clone())).collect(),
            sandboxes: status.sandboxes.iter().map(|sandbox| sandbox.id.clone()).collect(),
        }
    }
}

impl From<&RuntimePod> for RunningPod {
    fn from(pod: &RuntimePod) -> Self {
        let running = pod.containers.iter().filter(|container| container.state == ContainerState::Running);
        Self {
            uid: pod.uid.clone(),
            containers: running.map(|container| (container.id.clone(), container.name.clone())).collect(),
            sandboxes: pod.sandboxes.iter().map(|sandbox| sandbox.id.clone()).collect(),
        }
    }
}

impl Kuberuntime {
    /// Stops a pod: all containers side by side, each with its hook, its turn and its grace, and then every sandbox.
    ///
    /// `grace_override` is in seconds, instead of those that the pod asks for: only where a pod must go. A pod of which only
    /// the runtime knows is [what that tells](RuntimePod::to_api_pod), without hooks.
    ///
    /// Where a step of the result failed, something may still run; to be called again. Whoever drops the call in the
    /// middle calls again as well.
    pub async fn kill_pod(
        &self,
        pod: &Pod,
        running: &RunningPod,
        grace_override: Option<i64>,
    ) -> PodSyncResult {
        let mut result = PodSyncResult::default();
        // They fail with their containers, which is no reason to stop those once more.
        self.records.abandon_post_start(&running.uid, &running.containers);
        let names: BTreeSet<String> = running.containers.iter().map(|(_, name)| name.clone()).collect();
        let turns = Turns::new(TerminationOrder::new(pod, &names));
        let kills = running.containers.iter().map(|(id, name)| {
            self.killer.kill(Kill {
                pod: Some(pod),
                id,
                name,
                message: "",
                reason: KillReason::Unknown,
                grace_override,
                turns: Some(&turns),
            })
        });
        for (killed, (_, name)) in join_all(kills).await.into_iter().zip(&running.containers) {
            result.push(SyncAction::KillContainer, name, killed.map_err(kill_error));
        }
        let stops = join_all(running.sandboxes.iter().map(|id| self.runtime.stop_pod_sandbox(id))).await;
        let mut stopped = Ok(());
        for (stop, id) in stops.into_iter().zip(&running.sandboxes) {
            if let Err(failure) = stop
                && !failure.is_not_found()
            {
                error!(pod = %running.uid, sandbox = id, %failure, "a sandbox could not be stopped");
                stopped = Err(SyncError::new("KillPodSandboxError", failure.to_string()));
            }
        }
        result.push(SyncAction::KillPodSandbox, running.uid.to_string(), stopped);
        result
    }
}

pub(super) fn kill_error(message: String) -> SyncError {
    SyncError::new("KillContainerError", message)
}
