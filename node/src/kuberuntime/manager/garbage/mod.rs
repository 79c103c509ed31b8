//! What is left over: dead containers and sandboxes, and logs of pods that are gone.

mod logs;
mod policy;

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt};
use steersman_api::Uid;
use tracing::{debug, warn};

pub use self::policy::Policy;
use self::policy::{Dead, Sandbox, containers_to_remove, sandboxes_to_remove};
use super::convert::{container_state, sandbox_state, timestamp};
use super::kill::Kill;
use super::{Kuberuntime, off_thread};
use crate::container::{ContainerId, ContainerState};
use crate::cri::v1;
use crate::kuberuntime::actions::KillReason;
use crate::kuberuntime::labels::LabelledInfo;
use crate::runtime;

/// Removals side by side, so that one that hangs does not keep the others from it.
const SIDE_BY_SIDE: usize = 16;

/// What the agent knows of the state of pods.
pub trait PodStates: Send + Sync {
    /// Whether nothing of the pod is to be kept, its logs included: it was deleted, or is unknown, and nothing of it runs
    /// (`ShouldPodContentBeRemoved` upstream).
    fn content_should_be_removed(&self, pod: &Uid) -> bool;

    /// Whether containers and sandboxes of the pod may go where room is needed: it has ended for good
    /// (`ShouldPodRuntimeBeRemoved` upstream).
    fn runtime_should_be_removed(&self, pod: &Uid) -> bool;
}

/// How thorough a collection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Whether all sources of pods have been heard: before that, a pod that nobody knows may just not have been told yet,
    /// and nothing is removed for its being unknown.
    pub all_sources_ready: bool,
    /// Whether also the containers and sandboxes go of pods that have ended but were not deleted: where the disk is full.
    pub ended_pods_too: bool,
}

/// What kept a collection from being done. The next one, a minute later, tries again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The runtime could not be asked for its containers.
    #[error("list the runtime's containers: {0}")]
    ListContainers(#[source] runtime::Error),
    /// The runtime could not be asked for its sandboxes.
    #[error("list the runtime's sandboxes: {0}")]
    ListSandboxes(#[source] runtime::Error),
    /// The folder of logs could not be read.
    #[error("read the folder of pods' logs: {0}")]
    ReadLogs(#[source] std::io::Error),
}

impl Kuberuntime {
    /// Removes what is left over, by [`Options::garbage`](super::Options::garbage). What can't be removed is logged, and
    /// tried again the next time.
    ///
    /// # Errors
    /// Each that kept a part of it from being done; the other parts are done nevertheless.
    pub async fn collect_garbage(&self, pods: &dyn PodStates, scope: Scope) -> Result<(), Vec<Error>> {
        self.back_off.lock().collect_garbage((self.clock)());
        if scope.all_sources_ready {
            self.records.forget_where(|pod| pods.content_should_be_removed(pod));
        }
        let mut errors = Vec::new();
        errors.extend(self.collect_containers(pods, scope).await.err());
        errors.extend(self.collect_sandboxes(pods, scope).await.err());
        errors.extend(self.collect_logs(pods, scope).await.err());
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    async fn collect_containers(&self, pods: &dyn PodStates, scope: Scope) -> Result<(), Error> {
        let listed = self.runtime.list_containers(&v1::ContainerFilter::default()).await;
        let listed = listed.map_err(Error::ListContainers)?;
        let containers = listed.into_iter().filter_map(dead).collect();
        let gone = |pod: &Uid| scope.all_sources_ready && is_gone(pods, scope, pod);
        let remove = containers_to_remove(containers, &self.options.garbage, (self.clock)(), gone);
        let removed = remove.into_iter().map(|container| self.collect_container(container));
        stream::iter(removed).buffer_unordered(SIDE_BY_SIDE).collect::<()>().await;
        Ok(())
    }

    async fn collect_container(&self, container: Dead) {
        if container.state == ContainerState::Unknown {
            let id = ContainerId::new(self.options.runtime_name.clone(), container.id.clone());
            let kill = Kill {
                pod: None,
                id: &id,
                name: &container.name,
                message: "Container is in unknown state, try killing it before removal",
                reason: KillReason::Unknown,
                grace_override: None,
                turns: None,
            };
            if let Err(error) = self.killer.kill(kill).await {
                warn!(container = container.id, error, "Failed to stop container");
                return;
            }
        }
        if let Err(error) = self.remove_container(&container.id).await {
            warn!(container = container.id, error, "Failed to remove container");
        }
    }

    async fn collect_sandboxes(&self, pods: &dyn PodStates, scope: Scope) -> Result<(), Error> {
        let containers = self.runtime.list_containers(&v1::ContainerFilter::default()).await;
        let containers = containers.map_err(Error::ListContainers)?;
        let sandboxes = self.runtime.list_pod_sandbox(&v1::PodSandboxFilter::default()).await;
        let sandboxes = sandboxes.map_err(Error::ListSandboxes)?;
        let used: BTreeSet<String> =
            containers.into_iter().map(|container| container.pod_sandbox_id).collect();
        let sandboxes = sandboxes.into_iter().filter_map(sandbox).collect();
        let remove =
            sandboxes_to_remove(sandboxes, &used, |pod| scope.all_sources_ready && is_gone(pods, scope, pod));
        let removed = remove.into_iter().map(|id| self.remove_sandbox(id));
        stream::iter(removed).buffer_unordered(SIDE_BY_SIDE).collect::<()>().await;
        Ok(())
    }

    pub(super) async fn remove_sandbox(&self, id: String) {
        debug!(sandbox = id, "Removing sandbox");
        // It has been stopped before, but for rare cases.
        if let Err(error) = self.runtime.stop_pod_sandbox(&id).await {
            warn!(sandbox = id, %error, "Failed to stop sandbox before removing");
        } else if let Err(error) = self.runtime.remove_pod_sandbox(&id).await {
            warn!(sandbox = id, %error, "Failed to remove sandbox");
        }
    }

    async fn collect_logs(&self, pods: &dyn PodStates, scope: Scope) -> Result<(), Error> {
        if scope.all_sources_ready {
            let root = self.options.pod_logs.clone();
            let folders = off_thread(move || logs::pod_folders(&root)).await.map_err(Error::ReadLogs)?;
            let gone = folders.into_iter().filter(|(pod, _)| pods.content_should_be_removed(pod));
            let gone = gone.map(|(_, folder)| folder).collect();
            off_thread(move || logs::remove_folders(gone)).await;
        }
        let root = self.options.container_log_links.clone();
        let mut dead = Vec::new();
        for (id, link) in off_thread(move || logs::dangling_links(&root)).await {
            // While a log is rotated, it is not there for a moment.
            let status = self.runtime.container_status(&id).await;
            let state = status.ok().and_then(|answer| answer.status).map(|of| container_state(of.state));
            if state.is_none_or(|state| state == ContainerState::Exited) {
                dead.push(link);
            }
        }
        off_thread(move || logs::remove_links(dead)).await;
        Ok(())
    }
}

fn is_gone(pods: &dyn PodStates, scope: Scope, pod: &Uid) -> bool {
    pods.content_should_be_removed(pod) || (scope.ended_pods_too && pods.runtime_should_be_removed(pod))
}

/// None for what is somebody else's.
fn dead(container: v1::Container) -> Option<Dead> {
    let info = LabelledInfo::from_labels(&container.labels);
    (!info.pod_uid.is_empty()).then(|| Dead {
        pod: info.pod_uid,
        name: info.container_name,
        state: container_state(container.state),
        created_at: timestamp(container.created_at),
        id: container.id,
    })
}

/// None for what is somebody else's.
fn sandbox(sandbox: v1::PodSandbox) -> Option<Sandbox> {
    let info = LabelledInfo::from_labels(&sandbox.labels);
    (!info.pod_uid.is_empty()).then(|| Sandbox {
        pod: info.pod_uid,
        state: sandbox_state(sandbox.state),
        created_at: timestamp(sandbox.created_at),
        id: sandbox.id,
    })
}
