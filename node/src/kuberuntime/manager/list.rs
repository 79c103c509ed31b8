//! What the runtime has, listed and inspected for the PLEG.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::{try_join, try_join_all};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use steersman_api::{Quantity, Uid};

use super::convert::{container_state, container_status, group, sandbox_ips, sandbox_status};
use super::{Kuberuntime, off_thread, termination_message};
use crate::container::{
    ContainerResources, ContainerState, ContainerStatus, PodStatus, RuntimeContainer, RuntimePod,
    SandboxStatus,
};
use crate::cri::v1;
use crate::kuberuntime::labels;
use crate::pleg::{PodLister, RuntimeError};
use crate::runtime::{Error, RuntimeService};
use crate::volumes::ContainerMounts;

/// How many containers of a pod, and as many sandboxes, the runtime is asked for at a time: it may list any number of them.
const AT_ONCE: usize = 16;

#[async_trait]
impl PodLister for Kuberuntime {
    async fn pods(&self) -> Result<Vec<RuntimePod>, RuntimeError> {
        self.list(BTreeMap::new()).await.map_err(shared)
    }

    async fn pod(&self, uid: &Uid) -> Result<Option<RuntimePod>, RuntimeError> {
        let pods = self.list(of_pod(uid)).await.map_err(shared)?;
        Ok(pods.into_iter().find(|pod| pod.uid == *uid))
    }

    async fn pod_status(&self, pod: &RuntimePod) -> Result<PodStatus, RuntimeError> {
        let (sandboxes, containers) =
            try_join(self.sandboxes(pod), self.containers(pod)).await.map_err(shared)?;
        let mut status = PodStatus {
            uid: pod.uid.clone(),
            name: pod.name.clone(),
            namespace: pod.namespace.clone(),
            ips: Vec::new(),
            containers,
            sandboxes,
        };
        status
            .containers
            .sort_by_key(|container| (Reverse(container.created_at), Reverse(container.restart_count)));
        // Of the newest that was listed, or nobody's.
        let newest = pod.sandboxes.first().map(|sandbox| sandbox.id.as_str());
        if let Some(active) = status.active_sandbox().filter(|active| newest == Some(active.id.as_str())) {
            status.ips = sandbox_ips(active);
        }
        for container in &mut status.containers {
            self.fill_resources(&pod.uid, container);
        }
        Ok(status)
    }
}

impl Kuberuntime {
    async fn list(&self, labels: BTreeMap<String, String>) -> Result<Vec<RuntimePod>, Error> {
        let sandboxes = v1::PodSandboxFilter { label_selector: labels.clone(), ..Default::default() };
        let containers = v1::ContainerFilter { label_selector: labels, ..Default::default() };
        let (sandboxes, containers) =
            try_join(self.runtime.list_pod_sandbox(&sandboxes), self.runtime.list_containers(&containers))
                .await?;
        Ok(group(&self.options.runtime_name, sandboxes, containers))
    }

    /// The pod's sandboxes, inspected, without those that went since they were listed.
    async fn sandboxes(&self, pod: &RuntimePod) -> Result<Vec<SandboxStatus>, Error> {
        let mut found = Vec::new();
        for some in pod.sandboxes.chunks(AT_ONCE) {
            found.extend(try_join_all(some.iter().map(|sandbox| self.sandbox(&sandbox.id))).await?);
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// The pod's containers, inspected, without those that went since they were listed.
    async fn containers(&self, pod: &RuntimePod) -> Result<Vec<ContainerStatus>, Error> {
        let mut found = Vec::new();
        for some in pod.containers.chunks(AT_ONCE) {
            found.extend(try_join_all(some.iter().map(|container| self.container(container))).await?);
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// None where it went since it was listed.
    async fn sandbox(&self, id: &str) -> Result<Option<SandboxStatus>, Error> {
        inspect_sandbox(&*self.runtime, id).await
    }

    /// None where it went since it was listed.
    async fn container(&self, listed: &RuntimeContainer) -> Result<Option<ContainerStatus>, Error> {
        let Some(answer) = found(self.runtime.container_status(&listed.id.id).await)? else {
            return Ok(None);
        };
        let told = answer.status.unwrap_or_default();
        let mut status = container_status(&self.options.runtime_name, &listed.sandbox_id, &told);
        if container_state(told.state) == ContainerState::Exited {
            let message = off_thread(move || termination_message::of_exited(&told)).await;
            if !message.is_empty() && !status.message.is_empty() {
                status.message.push_str(": ");
            }
            status.message.push_str(&message);
        }
        Ok(Some(status))
    }

    /// What the runtime has mounted in each container of the pod that is in the sandbox in use. Asks the runtime.
    ///
    /// # Errors
    /// The runtime does not answer.
    pub async fn mounts(&self, status: &PodStatus) -> Result<Vec<ContainerMounts>, RuntimeError> {
        let mut found = Vec::new();
        for container in status.active_containers() {
            let answer = self.runtime.container_status(&container.id.id).await.map_err(shared)?;
            let mounts = answer.status.map(|status| status.mounts).unwrap_or_default();
            found.push(ContainerMounts { container: container.name.clone(), mounts });
        }
        Ok(found)
    }

    /// Requests of memory are known from what the container was given; so is all the rest where the runtime tells
    /// nothing.
    fn fill_resources(&self, pod: &Uid, container: &mut ContainerStatus) {
        let Some(given) = self.records.actuated(pod, &container.name) else { return };
        let amount = |list: &Option<BTreeMap<String, ApiQuantity>>, name: &str| -> Option<Quantity> {
            list.as_ref()?.get(name)?.0.parse().ok()
        };
        let memory_request = amount(&given.requests, "memory").map(|amount| amount.value());
        match &mut container.resources {
            Some(resources) => resources.memory_request = memory_request,
            None if given.limits.is_none() && given.requests.is_none() => {}
            None => {
                container.resources = Some(ContainerResources {
                    cpu_request_milli: amount(&given.requests, "cpu").map(|amount| amount.milli_value()),
                    cpu_limit_milli: amount(&given.limits, "cpu").map(|amount| amount.milli_value()),
                    memory_request,
                    memory_limit: amount(&given.limits, "memory").map(|amount| amount.value()),
                });
            }
        }
    }
}

/// The addresses of a pod: those of its newest sandbox, where that is ready.
pub(crate) async fn pod_ips(runtime: &dyn RuntimeService, uid: &Uid) -> Result<Vec<String>, Error> {
    let filter = v1::PodSandboxFilter { label_selector: of_pod(uid), ..Default::default() };
    let pods = group(&Default::default(), runtime.list_pod_sandbox(&filter).await?, Vec::new());
    let Some(newest) = pods.first().and_then(|pod| pod.sandboxes.first()) else { return Ok(Vec::new()) };
    let status = inspect_sandbox(runtime, &newest.id).await?;
    let ready = status.filter(|status| status.state == crate::container::SandboxState::Ready);
    Ok(ready.map(|status| sandbox_ips(&status)).unwrap_or_default())
}

async fn inspect_sandbox(runtime: &dyn RuntimeService, id: &str) -> Result<Option<SandboxStatus>, Error> {
    let answer = found(runtime.pod_sandbox_status(id).await)?;
    Ok(answer.and_then(|answer| answer.status).map(sandbox_status))
}

/// What is not found any more is no failure.
fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(error) if error.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}

fn of_pod(uid: &Uid) -> BTreeMap<String, String> {
    BTreeMap::from([(labels::POD_UID.to_owned(), uid.to_string())])
}

fn shared(error: Error) -> RuntimeError {
    Arc::new(error)
}
