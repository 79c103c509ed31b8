//! The labels and annotations under which the runtime keeps sandboxes and containers.
//!
//! They are the kubelet's byte for byte, since they are all that a successor has to find its containers by: whichever of the
//! two takes a node over finds everything the other left.

mod go_form;

use std::collections::BTreeMap;
use std::str::FromStr;

use k8s_openapi::api::core::v1::{Container, ContainerPort, LifecycleHandler, Pod};
use serde::de::DeserializeOwned;
use steersman_api::Uid;
use tracing::warn;

use crate::container::hash_container;

/// Label: the pod's name, on sandboxes and containers.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// Label: the pod's namespace, on sandboxes and containers.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Label: the pod's uid, on sandboxes and containers.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// Label: the container's name in the spec.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// Annotation: see [`hash_container`], in hexadecimal.
pub const CONTAINER_HASH: &str = "io.kubernetes.container.hash";
/// Annotation: how many containers of its name came before.
pub const CONTAINER_RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// Annotation: where inside the container its termination message is.
pub const CONTAINER_TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// Annotation: what serves as termination message where that file is empty.
pub const CONTAINER_TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
/// Annotation: the hook to run before the container is stopped, JSON.
pub const CONTAINER_PRE_STOP_HANDLER: &str = "io.kubernetes.container.preStopHandler";
/// Annotation: the container's ports, JSON.
pub const CONTAINER_PORTS: &str = "io.kubernetes.container.ports";
/// Annotation: the grace that the pod's deletion set, in seconds.
pub const POD_DELETION_GRACE_PERIOD: &str = "io.kubernetes.pod.deletionGracePeriod";
/// Annotation: the grace that the pod's spec sets, in seconds.
pub const POD_TERMINATION_GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";

/// Labels and annotations as the runtime takes and gives them.
pub type Texts = BTreeMap<String, String>;

/// The labels of a pod's sandbox: the pod's own, and who it is.
pub fn new_pod_labels(pod: &Pod) -> Texts {
    let mut labels = pod.metadata.labels.clone().unwrap_or_default();
    labels.extend(identity(pod));
    labels
}

/// The annotations of a pod's sandbox: the pod's own.
pub fn new_pod_annotations(pod: &Pod) -> Texts {
    pod.metadata.annotations.clone().unwrap_or_default()
}

/// The labels of a container: whose it is, and which.
pub fn new_container_labels(container: &Container, pod: &Pod) -> Texts {
    let mut labels: Texts = identity(pod).into();
    labels.insert(CONTAINER_NAME.to_owned(), container.name.clone());
    labels
}

/// The annotations of a container, on top of those that devices ask for (`from_devices`).
pub fn new_container_annotations(
    container: &Container,
    pod: &Pod,
    restart_count: u32,
    from_devices: Texts,
) -> Texts {
    let mut annotations = from_devices;
    let mut put = |name: &str, value: String| annotations.insert(name.to_owned(), value);
    put(CONTAINER_HASH, format!("{:x}", hash_container(container)));
    put(CONTAINER_RESTART_COUNT, restart_count.to_string());
    put(CONTAINER_TERMINATION_MESSAGE_PATH, container.termination_message_path.clone().unwrap_or_default());
    put(
        CONTAINER_TERMINATION_MESSAGE_POLICY,
        container.termination_message_policy.clone().unwrap_or_default(),
    );
    if let Some(seconds) = pod.metadata.deletion_grace_period_seconds {
        put(POD_DELETION_GRACE_PERIOD, seconds.to_string());
    }
    if let Some(seconds) = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds) {
        put(POD_TERMINATION_GRACE_PERIOD, seconds.to_string());
    }
    if let Some(handler) = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref()) {
        put(CONTAINER_PRE_STOP_HANDLER, go_form::handler(handler));
    }
    if let Some(ports) = container.ports.as_ref().filter(|ports| !ports.is_empty()) {
        put(CONTAINER_PORTS, go_form::ports(ports));
    }
    annotations
}

fn identity(pod: &Pod) -> [(String, String); 3] {
    let meta = &pod.metadata;
    [(POD_NAME, &meta.name), (POD_NAMESPACE, &meta.namespace), (POD_UID, &meta.uid)]
        .map(|(label, value)| (label.to_owned(), value.clone().unwrap_or_default()))
}

/// What the labels of a sandbox or container tell. What is missing is empty: it is not one of ours then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelledInfo {
    /// The pod's name.
    pub pod_name: String,
    /// The pod's namespace.
    pub pod_namespace: String,
    /// The pod's uid.
    pub pod_uid: Uid,
    /// The container's name; empty for a sandbox.
    pub container_name: String,
}

impl LabelledInfo {
    /// Reads labels back.
    pub fn from_labels(labels: &Texts) -> Self {
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        Self {
            pod_name: label(POD_NAME),
            pod_namespace: label(POD_NAMESPACE),
            pod_uid: Uid::from(label(POD_UID).as_str()),
            container_name: label(CONTAINER_NAME),
        }
    }

    /// The labels of a sandbox that are the pod's own.
    pub fn pod_labels(labels: &Texts) -> Texts {
        let own = |name: &str| ![POD_NAME, POD_NAMESPACE, POD_UID].contains(&name);
        labels
            .iter()
            .filter(|(name, _)| own(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

/// What the annotations of a container tell: enough to stop it in order when its pod is no longer known.
///
/// What is missing has its default; so has what does not read, which is logged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnnotatedInfo {
    /// The hash of the spec it was made from.
    pub hash: u64,
    /// How many containers of its name came before.
    pub restart_count: u32,
    /// The grace that the pod's deletion had set when it was made, in seconds.
    pub pod_deletion_grace_period: Option<i64>,
    /// The grace that the pod's spec set, in seconds.
    pub pod_termination_grace_period: Option<i64>,
    /// Where inside the container its termination message is.
    pub termination_message_path: String,
    /// What serves as termination message where that file is empty.
    pub termination_message_policy: String,
    /// The hook to run before it is stopped.
    pub pre_stop_handler: Option<LifecycleHandler>,
    /// Its ports, which that hook may name.
    pub ports: Vec<ContainerPort>,
}

impl AnnotatedInfo {
    /// Reads annotations back.
    pub fn from_annotations(annotations: &Texts) -> Self {
        let text = |name: &str| annotations.get(name).cloned().unwrap_or_default();
        Self {
            hash: read(annotations, CONTAINER_HASH, |text| u64::from_str_radix(text, 16)).unwrap_or_default(),
            restart_count: read(annotations, CONTAINER_RESTART_COUNT, u32::from_str).unwrap_or_default(),
            pod_deletion_grace_period: read(annotations, POD_DELETION_GRACE_PERIOD, i64::from_str),
            pod_termination_grace_period: read(annotations, POD_TERMINATION_GRACE_PERIOD, i64::from_str),
            termination_message_path: text(CONTAINER_TERMINATION_MESSAGE_PATH),
            termination_message_policy: text(CONTAINER_TERMINATION_MESSAGE_POLICY),
            pre_stop_handler: json(annotations, CONTAINER_PRE_STOP_HANDLER),
            ports: json(annotations, CONTAINER_PORTS).unwrap_or_default(),
        }
    }
}

fn read<T, E: std::fmt::Display>(
    annotations: &Texts,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Option<T> {
    let text = annotations.get(name)?;
    match parse(text) {
        Ok(value) => Some(value),
        Err(error) => {
            warn!(annotation = name, text, %error, "a container's annotation does not read");
            None
        }
    }
}

fn json<T: DeserializeOwned>(annotations: &Texts, name: &str) -> Option<T> {
    read(annotations, name, |text| serde_json::from_str(text))
}

#[cfg(test)]
mod tests;
