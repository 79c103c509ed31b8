//! What results make of a container's status. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};

use super::ProbeKind;
use super::worker::running_since;
use crate::kuberuntime::actions::ProbeResult;
use crate::restart_policy::is_restartable_init_container;
use crate::status_manager::statuses::Role;

/// What is known of a container's probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// The result of the startup probe.
    pub(super) startup: Option<ProbeResult>,
    /// Whether a task probes for the start.
    pub(super) has_startup: bool,
    /// The result of the readiness probe.
    pub(super) readiness: Option<ProbeResult>,
    /// Whether a task probes for readiness.
    pub(super) has_readiness: bool,
    /// Containers that started before were there before this agent.
    pub(super) before_agent: Timestamp,
}

/// What to do besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Nothing,
    /// Probe for readiness now: the pod waits for it.
    ProbeReadiness,
}

/// Sets `started` and `ready`.
pub(super) fn update(pod: &Pod, role: Role, status: &mut ContainerStatus, known: Known) -> Then {
    let Some(container) = spec_of(pod, role, &status.name) else { return Then::Nothing };
    let running = status.state.as_ref().is_some_and(|state| state.running.is_some());
    let started = running && has_started(status, known);
    match role {
        Role::Ephemeral => return Then::Nothing,
        Role::Init if !is_restartable_init_container(container) => {
            let terminated = status.state.as_ref().and_then(|state| state.terminated.as_ref());
            if terminated.is_some_and(|terminated| terminated.exit_code == 0) {
                status.ready = true;
            }
            status.started = Some(started);
            return Then::Nothing;
        }
        Role::Init | Role::Ordinary => status.started = Some(started),
    }
    if !started {
        return Then::Nothing;
    }
    if known.readiness == Some(ProbeResult::Success) {
        status.ready = true;
        return Then::Nothing;
    }
    status.ready = !known.has_readiness;
    if running_since(status).is_some_and(|since| since < known.before_agent) {
        // What was ready stays so until a probe says otherwise: a new agent is no news of the container.
        status.ready |= known.readiness.is_none();
        if ProbeKind::Readiness.of(container).is_some() && !is_pod_ready(pod) {
            status.ready = false;
        }
    }
    if known.has_readiness { Then::ProbeReadiness } else { Then::Nothing }
}

/// Of a container that runs.
fn has_started(status: &ContainerStatus, known: Known) -> bool {
    match known.startup {
        Some(result) => result == ProbeResult::Success,
        // Before this agent probes again, what was started stays so.
        None => status.started == Some(true) || !known.has_startup,
    }
}

fn spec_of<'a>(pod: &'a Pod, role: Role, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    let list = match role {
        Role::Init => spec.init_containers.as_deref().unwrap_or_default(),
        Role::Ordinary | Role::Ephemeral => &spec.containers,
    };
    list.iter().find(|container| container.name == name)
}

fn is_pod_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
