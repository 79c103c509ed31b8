//! Whether containers that ended are started again. Pure.

#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{
    Container, ContainerRestartRule, ContainerStatus as ApiContainerStatus, Pod, PodSpec,
    PodStatus as ApiPodStatus,
};

use crate::container::{ContainerState, PodStatus};
use crate::status_manager::conditions::ALL_CONTAINERS_RESTARTING;

const RESTART: &str = "Restart";
const RESTART_ALL_CONTAINERS: &str = "RestartAllContainers";

/// When a container that ended is started again, as a pod's spec or a container's says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Whatever it ended with. The default of pods.
    Always,
    /// If it ended with anything but 0.
    OnFailure,
    /// Not at all.
    Never,
}

impl RestartPolicy {
    /// A pod's policy.
    pub fn of_pod(spec: &PodSpec) -> Self {
        spec.restart_policy.as_deref().and_then(Self::named).unwrap_or(Self::Always)
    }

    /// A container's own policy, if it has one that is known. It goes before its pod's.
    pub fn of_container(container: &Container) -> Option<Self> {
        container.restart_policy.as_deref().and_then(Self::named)
    }

    fn named(name: &str) -> Option<Self> {
        match name {
            "Always" => Some(Self::Always),
            "OnFailure" => Some(Self::OnFailure),
            "Never" => Some(Self::Never),
            _ => None,
        }
    }

    fn restarts(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

/// Whether an init container is a sidecar: one that is kept running beside the regular containers.
pub fn is_restartable_init_container(container: &Container) -> bool {
    RestartPolicy::of_container(container) == Some(RestartPolicy::Always)
}

/// Whether a container of the pod is restarted when it is killed while it runs, say by a probe: by its own policy or its
/// pod's. Rules about exit codes have no say, since it has none.
pub fn restarts_when_killed(container: &Container, spec: &PodSpec) -> bool {
    RestartPolicy::of_container(container).unwrap_or_else(|| RestartPolicy::of_pod(spec))
        != RestartPolicy::Never
}

/// Whether a container that ended with `exit_code` is started again: by the first of its rules that matches, by its own
/// policy, by its pod's.
pub fn container_should_restart(container: &Container, spec: &PodSpec, exit_code: i32) -> bool {
    // Rules count only beside a policy.
    if container.restart_policy.is_some() {
        let action = matching_rule(container, exit_code).map(|rule| rule.action.as_str());
        if let Some(RESTART | RESTART_ALL_CONTAINERS) = action {
            return true;
        }
    }
    RestartPolicy::of_container(container).unwrap_or_else(|| RestartPolicy::of_pod(spec)).restarts(exit_code)
}

/// Whether none of a pod's containers may start a second time, however it ends: neither by a policy nor by a rule.
pub fn runs_once(spec: &PodSpec) -> bool {
    let never = |policy| policy == RestartPolicy::Never;
    let may_restart = |container: &Container| match container.restart_policy {
        Some(_) => {
            let mut rules = container.restart_policy_rules.iter().flatten();
            rules.any(|rule| rule.action == RESTART)
                || !RestartPolicy::of_container(container).is_some_and(never)
        }
        None => false,
    };
    never(RestartPolicy::of_pod(spec)) && !spec.containers.iter().any(may_restart)
}

/// The first rule of the container that is for `exit_code`.
pub fn matching_rule(container: &Container, exit_code: i32) -> Option<&ContainerRestartRule> {
    container.restart_policy_rules.iter().flatten().find(|rule| {
        rule.exit_codes.as_ref().is_some_and(|codes| {
            let listed = codes.values.iter().flatten().any(|code| *code == exit_code);
            match codes.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        })
    })
}

/// Whether an end with `exit_code` asks that all containers of the pod start over.
pub(crate) fn asks_to_restart_all(container: &Container, exit_code: i32) -> bool {
    matching_rule(container, exit_code).is_some_and(|rule| rule.action == RESTART_ALL_CONTAINERS)
}

/// Whether a container is to be started now, by its newest incarnation: never in a pod that is being deleted; always where it
/// never was, was not started, or cannot be told about; after its end as [`container_should_restart`] says.
pub fn should_container_be_restarted(
    container: &Container,
    pod: &Pod,
    spec: &PodSpec,
    status: &PodStatus,
) -> bool {
    if pod.metadata.deletion_timestamp.is_some() {
        return false;
    }
    let Some(newest) = status.container(&container.name) else { return true };
    match newest.state {
        ContainerState::Running => false,
        ContainerState::Created | ContainerState::Unknown => true,
        ContainerState::Exited => container_should_restart(container, spec, newest.exit_code),
    }
}

/// Whether the newest container of that spec ended well.
pub(crate) fn container_succeeded(container: &Container, status: &PodStatus) -> bool {
    let newest = status.container(&container.name);
    newest.is_some_and(|newest| newest.state == ContainerState::Exited && newest.exit_code == 0)
}

/// Whether all containers of a pod are to start over: its status says that they are doing so, or one of them ended in a way
/// that asks for it, by what the runtime tells or, where the runtime forgot, by the status last written.
pub fn should_all_containers_restart(
    pod: &Pod,
    status: Option<&PodStatus>,
    written: Option<&ApiPodStatus>,
) -> bool {
    let mut conditions = written.into_iter().flat_map(|written| written.conditions.iter().flatten());
    if conditions.any(|condition| condition.type_ == ALL_CONTAINERS_RESTARTING && condition.status == "True")
    {
        return true;
    }
    all_containers(pod).any(|container| {
        if let Some(status) = status {
            match status.container(&container.name) {
                Some(newest) if newest.state == ContainerState::Exited => {
                    if asks_to_restart_all(container, newest.exit_code) {
                        return true;
                    }
                }
                _ => return false,
            }
        }
        let ended = written.and_then(|written| exit_code_in(written, &container.name));
        ended.is_some_and(|exit_code| asks_to_restart_all(container, exit_code))
    })
}

/// Whether and how far all containers of a pod start over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartOfAll {
    /// Nothing asks for it.
    NotAsked,
    /// It is asked for, and the runtime still has containers from before.
    Removing,
    /// It is asked for, and the runtime has none of them any more: they may be made anew.
    Removed,
}

impl RestartOfAll {
    /// By what the runtime tells of the pod, and what its status said last.
    pub fn of(pod: &Pod, status: &PodStatus, written: &ApiPodStatus) -> Self {
        if !should_all_containers_restart(pod, Some(status), Some(written)) {
            return Self::NotAsked;
        }
        let any_left = all_containers(pod).any(|container| status.container(&container.name).is_some());
        if any_left { Self::Removing } else { Self::Removed }
    }
}

/// Whether an end of one of the pod's containers may ask that all of them start over.
pub fn all_containers_could_restart(spec: &PodSpec) -> bool {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut rules = containers.flat_map(|container| container.restart_policy_rules.iter().flatten());
    rules.any(|rule| rule.action == RESTART_ALL_CONTAINERS)
}

fn all_containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
}

fn exit_code_in(written: &ApiPodStatus, name: &str) -> Option<i32> {
    let init = written.init_container_statuses.iter().flatten();
    let regular = written.container_statuses.iter().flatten();
    let status: &ApiContainerStatus = init.chain(regular).find(|status| status.name == name)?;
    Some(status.state.as_ref()?.terminated.as_ref()?.exit_code)
}
