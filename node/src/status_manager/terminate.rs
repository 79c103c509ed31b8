//! The end of a pod, and what must not happen after it. Pure.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodSpec, PodStatus};

use super::conditions::is_terminal;
use super::statuses::{lost, terminated};
use crate::pod_config::is_static_pod;
use crate::restart_policy::{
    all_containers_could_restart, container_should_restart, is_restartable_init_container,
};

const NOT_LOCATED: &str = "The container could not be located when the pod was terminated";

/// The status of a pod of which nothing runs any more: containers whose end nobody saw count as killed, and the phase is
/// terminal. `status` is what was known last.
pub(super) fn ended(pod: &Pod, mut status: PodStatus) -> PodStatus {
    if was_initialized(pod) {
        status.container_statuses.iter_mut().flatten().for_each(end);
    }
    if let Some(init) = &mut status.init_container_statuses {
        let begun = begun(init);
        init[..begun].iter_mut().for_each(end);
    }
    // Of static pods upstream leaves it: they come back.
    if !is_static_pod(pod) && !is_terminal(status.phase.as_deref()) {
        status.phase = Some("Failed".to_owned());
    }
    status
}

fn end(status: &mut ContainerStatus) {
    if terminated(status.state.as_ref()).is_none() {
        status.state = Some(lost(NOT_LOCATED));
    }
}

/// How many init containers have ever been tried, one at least: those after the last that is more than waiting have not.
fn begun(init: &[ContainerStatus]) -> usize {
    let tried = |status: &ContainerStatus| {
        status.state.as_ref().is_none_or(|state| state.waiting.is_none())
            || terminated(status.last_state.as_ref()).is_some()
    };
    init.iter().rposition(tried).map_or(1, |last| last + 1).min(init.len())
}

/// Whether there is a trace of an ordinary container that was started, or of the last init container's success.
fn was_initialized(pod: &Pod) -> bool {
    let init = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    if init.is_empty() {
        return true;
    }
    let Some(status) = &pod.status else { return false };
    let started = status.container_statuses.iter().flatten().any(|status| {
        terminated(status.last_state.as_ref()).is_some()
            || status.state.as_ref().is_none_or(|state| state.waiting.is_none())
    });
    if started {
        return true;
    }
    let Some((at, last)) = status.init_container_statuses.iter().flatten().enumerate().last() else {
        return false;
    };
    let Some(container) = init.get(at).filter(|container| container.name == last.name) else { return false };
    if is_restartable_init_container(container) {
        last.started == Some(true) && last.state.as_ref().is_some_and(|state| state.running.is_some())
    } else {
        [&last.last_state, &last.state]
            .iter()
            .any(|state| terminated(state.as_ref()).is_some_and(|ended| ended.exit_code == 0))
    }
}

/// A container came back to life that must not: whoever made the status is wrong, and it is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum IllegalTransition {
    /// An ordinary container.
    #[error("terminated container {0} attempted illegal transition to non-terminated state")]
    Container(String),
    /// An init container.
    #[error("terminated init container {0} attempted illegal transition to non-terminated state")]
    InitContainer(String),
}

/// Refuses statuses in which a container that ended for good does not look ended.
pub(super) fn check_transition(
    spec: &PodSpec,
    old: &PodStatus,
    new: &PodStatus,
) -> Result<(), IllegalTransition> {
    let init = spec.init_containers.as_deref().unwrap_or_default();
    if matches!(spec.restart_policy.as_deref(), None | Some("" | "Always"))
        || all_containers_could_restart(spec)
    {
        return Ok(());
    }
    let revived = |containers: &[k8s_openapi::api::core::v1::Container],
                   old: &Option<Vec<ContainerStatus>>,
                   new: &Option<Vec<ContainerStatus>>| {
        old.iter().flatten().find_map(|old| {
            let ended = terminated(old.state.as_ref())?;
            if ended.exit_code != 0 && spec.restart_policy.as_deref() == Some("OnFailure") {
                return None;
            }
            let container = containers.iter().find(|container| container.name == old.name);
            if container.is_some_and(|container| {
                is_restartable_init_container(container)
                    || container_should_restart(container, spec, ended.exit_code)
            }) {
                return None;
            }
            let new = new.iter().flatten().find(|new| new.name == old.name)?;
            terminated(new.state.as_ref()).is_none().then(|| new.name.clone())
        })
    };
    if let Some(name) = revived(&spec.containers, &old.container_statuses, &new.container_statuses) {
        return Err(IllegalTransition::Container(name));
    }
    match revived(init, &old.init_container_statuses, &new.init_container_statuses) {
        Some(name) => Err(IllegalTransition::InitContainer(name)),
        None => Ok(()),
    }
}
