//! When a pod needs a new sandbox, and what is started in it.

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::PodActions;
use crate::container::{ContainerState, NamespaceMode, PodStatus, SandboxState};
use crate::restart_policy::{RestartPolicy, container_succeeded};

/// Whether a pod needs a new sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxChange {
    /// Whether it does.
    pub changed: bool,
    /// The attempt number: of the new one if it does, of the present one if not.
    pub attempt: u32,
    /// The newest sandbox, if any; none where its network is the wrong one.
    pub id: Option<String>,
}

/// Whether `pod` needs a new sandbox: it has none; its newest is not ready; more than one is; the network is the node's and
/// should be its own, or the other way round; or the runtime tells of a network without an address.
pub fn pod_sandbox_changed(pod: &Pod, status: &PodStatus) -> SandboxChange {
    let Some(newest) = status.sandboxes.first() else {
        return SandboxChange { changed: true, attempt: 0, id: None };
    };
    let next = |id: Option<&String>| SandboxChange {
        changed: true,
        // Past the highest number it begins anew, as upstream's does: the dead sandbox has that one.
        attempt: newest.attempt.wrapping_add(1),
        id: id.cloned(),
    };
    let ready = status.sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).count();
    if ready > 1 || newest.state != SandboxState::Ready {
        return next(Some(&newest.id));
    }
    let host_network = pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or_default();
    let wanted = if host_network { NamespaceMode::Node } else { NamespaceMode::Pod };
    if newest.network_mode != wanted {
        return next(None);
    }
    if !host_network && newest.network.as_ref().is_some_and(|network| network.ip.is_empty()) {
        return next(Some(&newest.id));
    }
    SandboxChange { changed: false, attempt: newest.attempt, id: Some(newest.id.clone()) }
}

/// What is started in a new sandbox: the pod begins at its beginning, unless it has come to its end.
pub(super) fn start_over(spec: &PodSpec, status: &PodStatus, actions: &mut PodActions) {
    let policy = RestartPolicy::of_pod(spec);
    if policy == RestartPolicy::Never && actions.attempt != 0 && !status.containers.is_empty() {
        // It has run. Had it never got as far as a container, the sandbox would be tried again.
        actions.create_sandbox = false;
        return;
    }
    let runs_once = |container| {
        RestartPolicy::of_container(container).unwrap_or(policy) == RestartPolicy::OnFailure
            && container_succeeded(container, status)
    };
    let to_start: Vec<usize> =
        (0..spec.containers.len()).filter(|&at| !runs_once(&spec.containers[at])).collect();
    if to_start.is_empty() && any_regular_container_created(spec, status) {
        actions.create_sandbox = false;
        return;
    }
    if spec.init_containers.iter().flatten().next().is_some() {
        actions.init_containers_to_start = vec![0];
    } else {
        actions.containers_to_start = to_start;
    }
}

/// Whether initialization has once been done: a regular container exists.
fn any_regular_container_created(spec: &PodSpec, status: &PodStatus) -> bool {
    let mut known = spec.containers.iter().filter_map(|container| status.container(&container.name));
    known.any(|container| container.state != ContainerState::Unknown)
}
