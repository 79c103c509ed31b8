//! Pods, as lists of the API's.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use serde::Serialize;
use serde_json::json;

use crate::cri::v1;
use crate::kuberuntime::labels::{CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID};
use crate::runtime::{Error, RuntimeService};

/// A PodList, JSON.
pub(super) fn pod_list<P: Serialize>(pods: &[P]) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct PodList<'a, P> {
        kind: &'static str,
        api_version: &'static str,
        metadata: serde_json::Value,
        items: &'a [P],
    }
    serde_json::to_vec(&PodList { kind: "PodList", api_version: "v1", metadata: json!({}), items: pods })
}

/// Whether a container of the pod's spec, of any kind, has a terminal; `None` if there is none of that name.
pub(super) fn terminal_of(pod: &Pod, container: &str) -> Option<bool> {
    let spec = pod.spec.as_ref()?;
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let mut terminals = containers
        .map(|container| (&container.name, container.tty))
        .chain(ephemeral.map(|container| (&container.name, container.tty)));
    terminals.find(|(name, _)| *name == container).map(|(_, tty)| tty.unwrap_or_default())
}

/// The pods of which something runs, with what the runtime knows of them: names, and the containers that run.
pub(super) async fn running_pods(runtime: &dyn RuntimeService) -> Result<Vec<Arc<Pod>>, Error> {
    let containers = runtime.list_containers(&running(BTreeMap::new())).await?;
    let mut pods: BTreeMap<String, Pod> = BTreeMap::new();
    for container in containers {
        let label = |name| container.labels.get(name).cloned();
        // What has no such labels was started by somebody else.
        let (Some(uid), Some(name)) = (label(POD_UID), label(POD_NAME)) else { continue };
        let pod = pods.entry(uid.clone()).or_default();
        pod.metadata.uid = Some(uid);
        pod.metadata.name = Some(name);
        pod.metadata.namespace = label(POD_NAMESPACE);
        pod.spec.get_or_insert_with(PodSpec::default).containers.push(Container {
            name: label(CONTAINER_NAME).unwrap_or_default(),
            image: container.image.map(|image| image.image),
            ..Container::default()
        });
    }
    Ok(pods.into_values().map(Arc::new).collect())
}

/// The containers that run and have these labels.
pub(super) fn running(label_selector: BTreeMap<String, String>) -> v1::ContainerFilter {
    let state = v1::ContainerStateValue { state: v1::ContainerState::ContainerRunning.into() };
    v1::ContainerFilter { state: Some(state), label_selector, ..Default::default() }
}
