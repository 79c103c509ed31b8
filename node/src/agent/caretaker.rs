//! What the sync loop leaves to the agent: who may run here, and what is left over.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use steersman_api::Uid;

use super::parts::Parts;
use crate::admission::{self, Admission, Policy, Rejection, Situation};
use crate::blocking::blocking;
use crate::cgroups::remove_patiently;
use crate::container::{ContainerId, ContainerState, RuntimePod, SandboxState};
use crate::kuberuntime::manager::garbage::PodStates;
use crate::node_status::NodeStatus;
use crate::pleg::PodLister;
use crate::sync_loop::{Agent, CleanUp, ContainerRemover, OnNode};

/// Admits pods, and tidies up after those that are gone.
pub(super) struct Caretaker {
    parts: Arc<Parts>,
    policy: Policy,
    node_status: NodeStatus,
    /// The API server, if there is one.
    client: Option<kube::Client>,
    /// Whether pressure of the node counts: not while pods come that run already.
    settled: AtomicBool,
}

impl Caretaker {
    /// With these parts; pods are admitted by `policy`, and by what the node is like.
    pub(super) fn new(
        parts: Arc<Parts>,
        policy: Policy,
        node_status: NodeStatus,
        client: Option<kube::Client>,
    ) -> Self {
        Self { parts, policy, node_status, client, settled: AtomicBool::new(false) }
    }

    async fn remove_cgroup(&self, pod: &Uid) {
        // What its volumes are must be gone first: those in memory are charged to it.
        if !crate::volumes::MountedVolumes::mounted(&self.parts.volumes, pod).is_empty() {
            return;
        }
        if let Err(error) = remove_patiently(&self.parts.cgroups, pod).await {
            tracing::warn!(%pod, %error, "an orphaned cgroup could not be removed yet");
        }
    }
}

#[async_trait]
impl Agent for Caretaker {
    fn admit(&self, pod: &Arc<Pod>, others: &[Arc<Pod>]) -> Result<Admission, Rejection> {
        let node = self.parts.node.any_way();
        let settled = self.settled.load(Ordering::Relaxed);
        let pressures = if settled { self.node_status.pressures() } else { BTreeSet::new() };
        let situation = Situation { node: node.as_deref(), pressures: &pressures, others };
        admission::admit(pod, &self.policy, situation)
    }

    async fn read_node(&self) {
        let Some(client) = &self.client else { return self.node_status.observe_initial().await };
        if let Err(error) = self.node_status.read(client).await {
            tracing::error!(%error, "Failed to synchronously fetch node info");
        }
    }

    fn settled(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    fn keep_only(&self, possibly_running: &HashSet<Uid>) {
        self.parts.probes.clean_up(possibly_running);
    }

    async fn observe(&self) -> Result<OnNode, String> {
        let listed = self.parts.runtime.pods().await.map_err(|error| error.to_string())?;
        let running = listed.into_iter().filter(runs).collect();
        let (cgroups, volumes) = (Arc::clone(&self.parts.cgroups), self.parts.volumes.clone());
        let found = blocking(move || {
            let cgroups = cgroups.pods()?.into_keys().collect();
            let folders = volumes.pods_on_disk()?.into_iter().collect();
            Ok::<_, io::Error>((cgroups, folders))
        });
        let (cgroups, folders) = found.await.map_err(|error| error.to_string())?;
        Ok(OnNode { running, cgroups, folders })
    }

    async fn clean_up(&self, work: CleanUp) {
        let gone = |pod: &Uid| !self.parts.states.could_have_running_containers(pod);
        for pod in work.cgroups.iter().filter(|pod| gone(pod)) {
            self.remove_cgroup(pod).await;
        }
        if !work.folders.is_empty() {
            self.parts.volumes.clean_orphans(&work.folders, gone).await;
        }
        let Some(client) = &self.parts.mirrors else { return };
        for mirror in &work.mirrors {
            let uid = mirror.metadata.uid.as_deref();
            if let Err(error) = client.delete(mirror, uid).await {
                tracing::error!(%error, "an orphaned mirror pod could not be deleted");
            }
        }
    }
}

/// Whether anything of the pod runs.
fn runs(pod: &RuntimePod) -> bool {
    pod.containers.iter().any(|container| container.state == ContainerState::Running)
        || pod.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready)
}

#[async_trait]
impl ContainerRemover for Caretaker {
    async fn remove_container(&self, container: &ContainerId) -> Result<(), String> {
        self.parts.runtime.delete_container(container).await
    }
}

impl PodStates for Caretaker {
    fn content_should_be_removed(&self, pod: &Uid) -> bool {
        self.parts.states.should_pod_content_be_removed(pod)
    }

    fn runtime_should_be_removed(&self, pod: &Uid) -> bool {
        self.parts.states.should_pod_runtime_be_removed(pod)
    }
}
