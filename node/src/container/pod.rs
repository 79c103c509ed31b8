//! What a list of the runtime's sandboxes and containers tells of one pod.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use steersman_api::Uid;

use super::id::ContainerId;
use super::state::{ContainerState, SandboxState};

/// One pod as of one list, running or not (`kubecontainer.Pod` upstream).
///
/// A pod that is here may be unknown to the API server, and a pod without sandbox and containers is not here at all.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimePod {
    /// The pod's uid, from the labels.
    pub uid: Uid,
    /// The pod's name.
    pub name: String,
    /// The pod's namespace.
    pub namespace: String,
    /// Its containers, the newest first.
    pub containers: Vec<RuntimeContainer>,
    /// Its sandboxes, the newest first.
    pub sandboxes: Vec<RuntimeSandbox>,
}

impl RuntimePod {
    /// The ids and states of its containers, then those of its sandboxes. A good runtime gives each of them an id of its own.
    pub fn states(&self) -> impl Iterator<Item = (&str, ContainerState)> {
        let containers = self.containers.iter().map(|container| (container.id.id.as_str(), container.state));
        let state = |sandbox: &RuntimeSandbox| sandbox.state.as_container_state();
        containers.chain(self.sandboxes.iter().map(move |sandbox| (sandbox.id.as_str(), state(sandbox))))
    }

    /// The pod as far as the runtime tells: its containers have names and images, and are all ordinary ones.
    pub fn to_api_pod(&self) -> Pod {
        let containers = self.containers.iter().map(|container| Container {
            name: container.name.clone(),
            image: Some(container.image.clone()),
            ..Container::default()
        });
        Pod {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                uid: Some(self.uid.to_string()),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec { containers: containers.collect(), ..PodSpec::default() }),
            status: None,
        }
    }

    /// The ids of its containers, then of its sandboxes.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        let containers = self.containers.iter().map(|container| container.id.id.as_str());
        containers.chain(self.sandboxes.iter().map(|sandbox| sandbox.id.as_str()))
    }
}

/// One container as of one list (`kubecontainer.Container` upstream).
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeContainer {
    /// Its id.
    pub id: ContainerId,
    /// Its name in the pod's spec.
    pub name: String,
    /// The image as the pod named it.
    pub image: String,
    /// The image's id in the runtime.
    pub image_id: String,
    /// The hash of the spec it was made from, or 0 where its annotation is missing.
    pub hash: u64,
    /// What it is doing.
    pub state: ContainerState,
    /// The sandbox it is in.
    pub sandbox_id: String,
    /// When it was made.
    pub created_at: Timestamp,
}

/// One sandbox as of one list.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeSandbox {
    /// Its id.
    pub id: String,
    /// Whether it stands.
    pub state: SandboxState,
    /// When it was made.
    pub created_at: Timestamp,
}
