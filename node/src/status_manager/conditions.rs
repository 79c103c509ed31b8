//! The conditions that a node writes into a pod's status, generated from the state of its containers. Pure.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus};

use super::statuses::status_of;
use crate::restart_policy::{RestartOfAll, all_containers_could_restart, is_restartable_init_container};

/// The pod was given to a node.
pub const POD_SCHEDULED: &str = "PodScheduled";
/// Its sandbox, with its network, is there.
pub const READY_TO_START_CONTAINERS: &str = "PodReadyToStartContainers";
/// Its init containers have done their work.
pub const INITIALIZED: &str = "Initialized";
/// All its containers are ready.
pub const CONTAINERS_READY: &str = "ContainersReady";
/// They are, and so are its readiness gates.
pub const READY: &str = "Ready";
/// All its containers are about to start anew.
pub const ALL_CONTAINERS_RESTARTING: &str = "AllContainersRestarting";
/// It is to make room, or its node goes. Others set it too.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// Resizing: not derived from the status, but kept by who allocates.
const RESIZE: [&str; 2] = ["PodResizeInProgress", "PodResizePending"];

const UNKNOWN_CONTAINER_STATUSES: &str = "UnknownContainerStatuses";
const POD_COMPLETED: &str = "PodCompleted";
const POD_FAILED: &str = "PodFailed";
const CONTAINERS_NOT_READY: &str = "ContainersNotReady";
const CONTAINERS_NOT_INITIALIZED: &str = "ContainersNotInitialized";
const RESTART_ALL_CONTAINERS_STARTED: &str = "RestartAllContainersStarted";
const READINESS_GATES_NOT_READY: &str = "ReadinessGatesNotReady";

/// Whether a condition is the node's alone: what others write there is overwritten.
pub fn is_owned(kind: &str) -> bool {
    [
        POD_SCHEDULED,
        READY,
        INITIALIZED,
        CONTAINERS_READY,
        READY_TO_START_CONTAINERS,
        ALL_CONTAINERS_RESTARTING,
    ]
    .contains(&kind)
        || RESIZE.contains(&kind)
}

/// Whether the node sets a condition that others set as well.
pub fn is_shared(kind: &str) -> bool {
    kind == DISRUPTION_TARGET
}

/// A condition of that type.
pub fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// Whether a condition is there and true.
pub fn is_true(status: &PodStatus, kind: &str) -> bool {
    condition(status, kind).is_some_and(|condition| condition.status == "True")
}

/// Replaces the condition of `new`'s type, or appends `new` if the list has none.
///
/// Leaves the transition time alone, unlike `steersman_api::condition::set`: the kubelet compares the status with that
/// of the previous status, not with that of the condition that it replaces (see `merge::set_transition_time`).
pub fn replace_or_append(conditions: &mut Vec<PodCondition>, new: PodCondition) {
    match conditions.iter_mut().find(|condition| condition.type_ == new.type_) {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

/// A phase after which nothing follows.
pub fn is_terminal(phase: Option<&str>) -> bool {
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// A condition of this generation of the pod; when it changed is filled in as it goes into the cache.
fn new(pod: &Pod, kind: &str, status: &str, reason: &str, message: String) -> PodCondition {
    PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
        message: Some(message).filter(|message| !message.is_empty()),
        observed_generation: pod.metadata.generation.filter(|generation| *generation != 0),
        last_probe_time: None,
        last_transition_time: None,
    }
}

/// What the pod was scheduled to is this node, or it would not be here.
pub fn scheduled(pod: &Pod) -> PodCondition {
    new(pod, POD_SCHEDULED, "True", "", String::new())
}

/// Whether the sandbox is there, and no new one is needed.
pub fn ready_to_start_containers(pod: &Pod, sandbox: Sandbox) -> PodCondition {
    let status = match sandbox {
        Sandbox::Ready => "True",
        Sandbox::Needed => "False",
    };
    new(pod, READY_TO_START_CONTAINERS, status, "", String::new())
}

/// Whether all containers are being removed to start over; told of those pods alone that may do so.
pub fn all_containers_restarting(
    pod: &Pod,
    restart_of_all: RestartOfAll,
    phase: &str,
) -> Option<PodCondition> {
    pod.spec.as_ref().filter(|spec| all_containers_could_restart(spec))?;
    let mut condition = if is_terminal(Some(phase)) {
        at_the_end(pod, ALL_CONTAINERS_RESTARTING, Some(phase))
    } else if restart_of_all == RestartOfAll::Removing {
        let message = "container exited with restart policy rule".to_owned();
        new(pod, ALL_CONTAINERS_RESTARTING, "True", RESTART_ALL_CONTAINERS_STARTED, message)
    } else {
        new(pod, ALL_CONTAINERS_RESTARTING, "False", "", String::new())
    };
    // Alone among the node's conditions it follows no generation, as upstream.
    condition.observed_generation = None;
    Some(condition)
}

/// How a pod's sandbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// There is none, or it will be replaced.
    Needed,
    /// It is there, and its network is set up.
    Ready,
}

/// Names as Go prints a list.
fn listed(names: &[&str]) -> String {
    format!("[{}]", names.join(" "))
}

/// What is wrong with some containers, in words.
fn complaint(unknown: &[&str], others: &[&str], what: &str) -> String {
    let mut parts = Vec::new();
    if !unknown.is_empty() {
        parts.push(format!("containers with unknown status: {}", listed(unknown)));
    }
    if !others.is_empty() {
        parts.push(format!("containers with {what} status: {}", listed(others)));
    }
    parts.join(", ")
}

/// Whether all containers are ready. `statuses` are those of init and ordinary containers; `None` if nothing is known.
pub fn containers_ready(
    pod: &Pod,
    statuses: Option<&[ContainerStatus]>,
    phase: Option<&str>,
) -> PodCondition {
    let Some(statuses) = statuses else {
        return new(pod, CONTAINERS_READY, "False", UNKNOWN_CONTAINER_STATUSES, String::new());
    };
    let (mut unknown, mut unready) = (Vec::new(), Vec::new());
    for container in long_running(pod.spec.as_ref()) {
        match status_of(statuses, &container.name) {
            None => unknown.push(container.name.as_str()),
            Some(status) if !status.ready => unready.push(container.name.as_str()),
            Some(_) => {}
        }
    }
    if phase == Some("Failed") || (phase == Some("Succeeded") && unknown.is_empty()) {
        return at_the_end(pod, CONTAINERS_READY, phase);
    }
    match complaint(&unknown, &unready, "unready") {
        message if message.is_empty() => new(pod, CONTAINERS_READY, "True", "", message),
        message => new(pod, CONTAINERS_READY, "False", CONTAINERS_NOT_READY, message),
    }
}

/// Containers that are to run as long as the pod does.
fn long_running(spec: Option<&PodSpec>) -> impl Iterator<Item = &Container> {
    let sidecars = spec
        .into_iter()
        .flat_map(|spec| spec.init_containers.iter().flatten())
        .filter(|c| is_restartable_init_container(c));
    sidecars.chain(spec.into_iter().flat_map(|spec| &spec.containers))
}

/// Whether all containers are ready and all readiness gates (conditions that others set) are true.
pub fn ready(
    pod: &Pod,
    conditions: &[PodCondition],
    statuses: Option<&[ContainerStatus]>,
    phase: Option<&str>,
) -> PodCondition {
    let containers = containers_ready(pod, statuses, phase);
    if containers.status != "True" {
        return PodCondition { type_: READY.to_owned(), ..containers };
    }
    let gates = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_ref());
    let closed: Vec<String> = gates
        .into_iter()
        .flatten()
        .filter_map(|gate| {
            let kind = &gate.condition_type;
            match conditions.iter().find(|condition| condition.type_ == *kind) {
                None => {
                    Some(format!("corresponding condition of pod readiness gate \"{kind}\" does not exist."))
                }
                Some(condition) if condition.status != "True" => Some(format!(
                    "the status of pod readiness gate \"{kind}\" is not \"True\", but {}",
                    condition.status
                )),
                Some(_) => None,
            }
        })
        .collect();
    if closed.is_empty() {
        new(pod, READY, "True", "", String::new())
    } else {
        new(pod, READY, "False", READINESS_GATES_NOT_READY, closed.join(", "))
    }
}

/// Whether the init containers have done their work, now or ever: what has begun to run was initialized.
pub fn initialized(
    pod: &Pod,
    old: &PodStatus,
    statuses: Option<&[ContainerStatus]>,
    phase: Option<&str>,
) -> PodCondition {
    let init = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    if statuses.is_none() && !init.is_empty() {
        return new(pod, INITIALIZED, "False", UNKNOWN_CONTAINER_STATUSES, String::new());
    }
    let statuses = statuses.unwrap_or_default();
    let (mut unknown, mut incomplete) = (Vec::new(), Vec::new());
    for container in init {
        match status_of(statuses, &container.name) {
            None => unknown.push(container.name.as_str()),
            Some(status) if !is_initialized(container, status) => incomplete.push(container.name.as_str()),
            Some(_) => {}
        }
    }
    if phase == Some("Succeeded") && unknown.is_empty() {
        return new(pod, INITIALIZED, "True", POD_COMPLETED, String::new());
    }
    let message = complaint(&unknown, &incomplete, "incomplete");
    // Init containers may run again, in a pod that restarts in place; the pod stays initialized.
    if any_ordinary_started(pod, statuses) || message.is_empty() || is_true(old, INITIALIZED) {
        return new(pod, INITIALIZED, "True", "", String::new());
    }
    new(pod, INITIALIZED, "False", CONTAINERS_NOT_INITIALIZED, message)
}

fn is_initialized(container: &Container, status: &ContainerStatus) -> bool {
    if is_restartable_init_container(container) { status.started == Some(true) } else { status.ready }
}

fn any_ordinary_started(pod: &Pod, statuses: &[ContainerStatus]) -> bool {
    pod.spec.iter().flat_map(|spec| &spec.containers).any(|container| {
        let state = status_of(statuses, &container.name).and_then(|status| status.state.as_ref());
        state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    })
}

/// Neither [`READY`] nor [`CONTAINERS_READY`] is true of a pod that ended.
pub(super) fn at_the_end(pod: &Pod, kind: &str, phase: Option<&str>) -> PodCondition {
    let reason = match phase {
        Some("Failed") => POD_FAILED,
        Some("Succeeded") => POD_COMPLETED,
        _ => "",
    };
    new(pod, kind, "False", reason, String::new())
}

/// Whether somebody else's condition, a readiness gate, changed what [`READY`] must be.
pub fn needs_readiness_reconciled(pod: &Pod) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_ref());
    if gates.is_none_or(Vec::is_empty) {
        return false;
    }
    let Some(status) = &pod.status else { return false };
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let expected = ready(pod, conditions, status.container_statuses.as_deref(), status.phase.as_deref());
    condition(status, READY)
        .is_some_and(|current| current.status != expected.status || current.message != expected.message)
}
