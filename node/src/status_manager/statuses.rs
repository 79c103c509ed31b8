//! The statuses of containers: from what the runtime says and what the pod's status said before. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, ContainerUser, Pod, PodSpec, VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::container::ContainerResources;
use crate::restart_policy::{RestartOfAll, container_should_restart, is_restartable_init_container};

/// Why a container waits that nothing kept from starting yet.
const CONTAINER_CREATING: &str = "ContainerCreating";
/// The same in a pod with init containers.
const POD_INITIALIZING: &str = "PodInitializing";
/// Of a container that ended while nobody looked.
pub(super) const STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
/// Of a container that was removed since all containers of its pod start over, however it ended.
pub(super) const RESTARTING_ALL: &str = "RestartingAllContainers";
/// Killed: what is reported where the exit code is lost.
pub(super) const LOST_EXIT_CODE: i32 = 137;

/// A container as the runtime has it.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedContainer {
    /// Its name in the pod.
    pub name: String,
    /// With the runtime's scheme, such as `containerd://...`.
    pub id: String,
    /// How it is.
    pub state: ObservedState,
    /// As the runtime names it.
    pub image: String,
    /// With its digest.
    pub image_ref: String,
    /// How often the container was started before.
    pub restart_count: i32,
    /// Tells attempts apart: the newest counts.
    pub created_at: Timestamp,
    /// What it was given, as far as that is known.
    pub resources: Option<ContainerResources>,
    /// As whom it runs, if the runtime says so.
    pub user: Option<ContainerUser>,
}

/// How a container is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObservedState {
    /// Made, not started.
    Created,
    /// Running.
    Running {
        /// Since when.
        started_at: Timestamp,
    },
    /// Ended.
    Exited {
        /// When it began.
        started_at: Timestamp,
        /// When it ended.
        finished_at: Timestamp,
        /// Its exit code.
        exit_code: i32,
        /// Such as `Completed`, `Error` or `OOMKilled`.
        reason: String,
        /// Its termination message.
        message: String,
    },
    /// The runtime does not know.
    Unknown,
}

/// Why the last attempt to start a container failed, such as `ErrImagePull` or `CrashLoopBackOff`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartFailure {
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// Which containers of a pod are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Its init containers and sidecars.
    Init,
    /// Its containers.
    Ordinary,
    /// Those put in for debugging.
    Ephemeral,
}

/// The status of a container by its name.
pub(super) fn status_of<'a>(statuses: &'a [ContainerStatus], name: &str) -> Option<&'a ContainerStatus> {
    statuses.iter().find(|status| status.name == name)
}

/// How a container ended, if it has.
pub(super) fn terminated(state: Option<&ContainerState>) -> Option<&ContainerStateTerminated> {
    state.and_then(|state| state.terminated.as_ref())
}

/// The containers of that role.
pub(super) fn containers(spec: &PodSpec, role: Role) -> Vec<Container> {
    match role {
        Role::Init => spec.init_containers.clone().unwrap_or_default(),
        Role::Ordinary => spec.containers.clone(),
        Role::Ephemeral => spec
            .ephemeral_containers
            .iter()
            .flatten()
            .map(|container| Container {
                name: container.name.clone(),
                image: container.image.clone(),
                volume_mounts: container.volume_mounts.clone(),
                ..Container::default()
            })
            .collect(),
    }
}

/// The statuses of the containers of one role: init containers in the order of the spec, others by name.
///
/// `old` is what the pod's status said of them before: what the runtime has forgotten is taken from there. Where all start
/// over, what is missing was removed for that.
pub fn container_statuses(
    pod: &Pod,
    role: Role,
    old: &[ContainerStatus],
    observed: &[ObservedContainer],
    failures: &BTreeMap<String, StartFailure>,
    restart_of_all: RestartOfAll,
) -> Vec<ContainerStatus> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let containers = containers(spec, role);
    let has_init = spec.init_containers.as_ref().is_some_and(|init| !init.is_empty());
    let waiting_for = if has_init { POD_INITIALIZING } else { CONTAINER_CREATING };
    let mut newest_first: Vec<_> = observed.iter().collect();
    newest_first.sort_by_key(|container| std::cmp::Reverse(container.created_at));
    let mut statuses = Vec::new();
    for container in &containers {
        let old = status_of(old, &container.name);
        let attempts: Vec<_> =
            newest_first.iter().filter(|seen| seen.name == container.name).copied().collect();
        let mut status = match attempts.split_first() {
            None if restart_of_all != RestartOfAll::NotAsked => of_removed(container, old, waiting_for),
            None => of_missing(container, old, waiting_for, pod.metadata.deletion_timestamp.is_some()),
            Some((latest, earlier)) => {
                let mut status = of_observed(container, latest, old, role, restart_of_all);
                if let Some(previous) = earlier.first() {
                    // Of the attempt before the latest, what the runtime says of it counts.
                    status.last_state = of_observed(container, previous, old, role, restart_of_all).state;
                }
                status
            }
        };
        adjust(&mut status, container, pod, spec, role, attempts.first().copied(), observed, failures);
        statuses.push(status);
    }
    if role != Role::Init {
        statuses.sort_by(|one, other| one.name.cmp(&other.name));
    }
    statuses
}

/// What is told of a container that the runtime has not: how it ended if that is known, else that it waits.
fn as_before(container: &Container, old: Option<&ContainerStatus>, waiting_for: &str) -> ContainerStatus {
    if let Some(ended) = old.filter(|old| terminated(old.state.as_ref()).is_some()) {
        return ended.clone();
    }
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        state: Some(waiting(waiting_for, None)),
        volume_mounts: mounts(container),
        restart_count: old.map_or(0, |old| old.restart_count),
        last_state: old.and_then(|old| old.last_state.clone()),
        ..ContainerStatus::default()
    }
}

/// Of a container that the runtime has not any more, or not yet again, in a pod whose containers all start over.
fn of_removed(container: &Container, old: Option<&ContainerStatus>, waiting_for: &str) -> ContainerStatus {
    let mut status = as_before(container, old, waiting_for);
    let begun = |old: &&ContainerStatus| old.state.as_ref().is_none_or(|state| state.waiting.is_none());
    if let Some(old) = old.filter(begun) {
        let message = "The container is removed because RestartAllContainers in place";
        status.state = Some(waiting(RESTARTING_ALL, Some(message)));
        status.last_state = Some(ended(LOST_EXIT_CODE, RESTARTING_ALL, message));
        status.restart_count = old.restart_count.saturating_add(1);
    }
    status
}

/// Of a container that the runtime has not, or not any more.
fn of_missing(
    container: &Container,
    old: Option<&ContainerStatus>,
    waiting_for: &str,
    deleted: bool,
) -> ContainerStatus {
    let mut status = as_before(container, old, waiting_for);
    let Some(old) = old else { return status };
    let ran = old.state.as_ref().is_some_and(|state| state.running.is_some());
    if ran && terminated(status.last_state.as_ref()).is_none() {
        // It ran, and nobody saw how it ended. Waiting alone would put the pod back to Pending.
        let message =
            "The container could not be located when the pod was deleted.  The container used to be Running";
        status.last_state = Some(lost(message));
        if !deleted {
            status.restart_count = status.restart_count.saturating_add(1);
        }
    }
    status
}

/// Of a container that the runtime has.
fn of_observed(
    container: &Container,
    observed: &ObservedContainer,
    old: Option<&ContainerStatus>,
    role: Role,
    restart_of_all: RestartOfAll,
) -> ContainerStatus {
    let mut status = ContainerStatus {
        name: observed.name.clone(),
        container_id: Some(observed.id.clone()),
        image: observed.image.clone(),
        image_id: observed.image_ref.clone(),
        restart_count: observed.restart_count,
        user: observed.user.clone(),
        ..ContainerStatus::default()
    };
    if role != Role::Ephemeral {
        status.resources = Some(super::resources::resources(container, observed, old));
        status.allocated_resources =
            container.resources.as_ref().and_then(|resources| resources.requests.clone());
    }
    if let Some(old) = old {
        status.volume_mounts.clone_from(&old.volume_mounts);
        status.restart_count = status.restart_count.max(old.restart_count);
        let ended = terminated(old.state.as_ref()).filter(|_| old.container_id != status.container_id);
        let ended = ended.or(terminated(old.last_state.as_ref()));
        status.last_state = ended
            .map(|ended| ContainerState { terminated: Some(ended.clone()), ..ContainerState::default() });
    }
    let old_ran = old.is_some_and(|old| old.state.as_ref().is_some_and(|state| state.running.is_some()));
    status.state = Some(match &observed.state {
        ObservedState::Running { started_at } => {
            if let Some(old) = old {
                // Ended under the same number of restarts: it was made anew.
                if terminated(old.state.as_ref()).is_some() && old.restart_count >= observed.restart_count {
                    status.restart_count = old.restart_count.saturating_add(1);
                }
                // Whoever restarts this agent restarts no probes: what was started stays so.
                status.started = old.started;
            }
            ContainerState {
                running: Some(ContainerStateRunning { started_at: Some(Time(*started_at)) }),
                ..ContainerState::default()
            }
        }
        ObservedState::Exited { started_at, finished_at, exit_code, reason, message } => ContainerState {
            terminated: Some(ContainerStateTerminated {
                exit_code: *exit_code,
                reason: Some(reason.clone()).filter(|reason| !reason.is_empty()),
                message: Some(message.clone()).filter(|message| !message.is_empty()),
                started_at: Some(Time(*started_at)),
                finished_at: Some(Time(*finished_at)),
                container_id: Some(observed.id.clone()),
                signal: None,
            }),
            ..ContainerState::default()
        },
        ObservedState::Unknown if old_ran => {
            status.restart_count = old.map_or(0, |old| old.restart_count).saturating_add(1);
            let asked = restart_of_all != RestartOfAll::NotAsked;
            let reason = if asked { RESTARTING_ALL } else { STATUS_UNKNOWN };
            ended(LOST_EXIT_CODE, reason, "The container could not be located when the pod was terminated")
        }
        ObservedState::Created | ObservedState::Unknown => {
            ContainerState { waiting: Some(ContainerStateWaiting::default()), ..ContainerState::default() }
        }
    });
    status
}

/// What the pod and the failures to start it say of a container, beyond its own state.
#[allow(clippy::too_many_arguments, reason = "all of it is what the function looks at, and nobody else does")]
fn adjust(
    status: &mut ContainerStatus,
    container: &Container,
    pod: &Pod,
    spec: &PodSpec,
    role: Role,
    latest: Option<&ObservedContainer>,
    observed: &[ObservedContainer],
    failures: &BTreeMap<String, StartFailure>,
) {
    if role == Role::Init {
        if let Some(ObservedState::Exited { exit_code: 0, .. }) = latest.map(|latest| &latest.state) {
            return;
        }
        let waits = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
        if latest.is_none()
            && waits
            && !is_restartable_init_container(container)
            && any_ordinary_created(spec, observed)
        {
            let message = "Unable to get init container status from container runtime and pod has been initialized, treat \
                           it as exited normally";
            status.state = Some(ended(0, "Completed", message));
            return;
        }
    }
    let to_be_started = pod.metadata.deletion_timestamp.is_none()
        && match latest.map(|latest| &latest.state) {
            None | Some(ObservedState::Created | ObservedState::Unknown) => true,
            Some(ObservedState::Running { .. }) => false,
            Some(ObservedState::Exited { exit_code, .. }) => {
                container_should_restart(container, spec, *exit_code)
            }
        };
    if let Some(failure) = failures.get(&container.name).filter(|_| to_be_started) {
        if terminated(status.state.as_ref()).is_some() {
            status.last_state = status.state.take();
        }
        status.state = Some(waiting(&failure.reason, Some(&failure.message)));
    }
}

fn any_ordinary_created(spec: &PodSpec, observed: &[ObservedContainer]) -> bool {
    let ordinary: BTreeSet<_> = spec.containers.iter().map(|container| container.name.as_str()).collect();
    observed
        .iter()
        .any(|seen| ordinary.contains(seen.name.as_str()) && !matches!(seen.state, ObservedState::Unknown))
}

/// The mounts of a container that nobody has started.
fn mounts(container: &Container) -> Option<Vec<VolumeMountStatus>> {
    let mounts = container.volume_mounts.iter().flatten().map(|mount| VolumeMountStatus {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: mount.read_only.filter(|read_only| *read_only),
        recursive_read_only: mount.read_only.filter(|read_only| *read_only).map(|_| {
            let wanted = mount.recursive_read_only.as_deref() == Some("Enabled");
            if wanted { "Enabled" } else { "Disabled" }.to_owned()
        }),
        ..VolumeMountStatus::default()
    });
    Some(mounts.collect::<Vec<_>>()).filter(|mounts| !mounts.is_empty())
}

fn waiting(reason: &str, message: Option<&str>) -> ContainerState {
    let waiting = ContainerStateWaiting {
        reason: Some(reason.to_owned()),
        message: message.filter(|message| !message.is_empty()).map(str::to_owned),
    };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn ended(exit_code: i32, reason: &str, message: &str) -> ContainerState {
    let terminated = ContainerStateTerminated {
        exit_code,
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

/// The end of a container that nobody saw.
pub(super) fn lost(message: &str) -> ContainerState {
    ended(LOST_EXIT_CODE, STATUS_UNKNOWN, message)
}
