//! The phase of a pod, from the states of its containers. Pure.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec};

use super::statuses::{RESTARTING_ALL, status_of, terminated};
use crate::pod_config::is_static_pod;
use crate::restart_policy::{container_should_restart, is_restartable_init_container};

/// In which part of its life the node has a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Containers that end may be started again.
    Running,
    /// Whatever its restart policy: what ended stays so.
    Ended,
}

/// How one container counts.
enum Count {
    /// It has no status, or one without a state.
    Unknown,
    /// It was never started.
    Waiting,
    Running {
        started: bool,
    },
    /// It ended, the last time it ran.
    Stopped {
        exit_code: i32,
        waits: bool,
        restarts: bool,
    },
}

/// The phase of a pod. `statuses` are those of init and ordinary containers, and `initialized` says whether an ordinary
/// container of the sandbox that is there was ever started.
pub fn phase(pod: &Pod, statuses: &[ContainerStatus], stage: Stage, initialized: bool) -> &'static str {
    let Some(spec) = &pod.spec else { return "Pending" };
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let mut init_pending = false;
    for container in init.iter().filter(|container| !is_restartable_init_container(container)) {
        match count(container, spec, statuses) {
            // What can't be started again, and failed, fails the pod.
            Count::Stopped { exit_code, restarts: false, .. } if exit_code != 0 => return "Failed",
            Count::Stopped { .. } => {}
            Count::Unknown | Count::Waiting | Count::Running { .. } => init_pending = true,
        }
    }
    let mut sidecars_pending = false;
    let (mut unknown, mut running, mut waiting) = (0, 0, 0);
    for container in init.iter().filter(|container| is_restartable_init_container(container)) {
        match count(container, spec, statuses) {
            Count::Unknown => {
                unknown += 1;
                // One without a status at all says nothing of being about to start.
                sidecars_pending |= status_of(statuses, &container.name).is_some();
            }
            Count::Waiting => {
                sidecars_pending = true;
                waiting += 1;
            }
            Count::Running { started } => {
                sidecars_pending |= !started;
                running += 1;
            }
            // Sidecars that ended don't count.
            Count::Stopped { .. } => {}
        }
    }
    let (mut stopped, mut for_good, mut succeeded) = (0, 0, 0);
    for container in &spec.containers {
        match count(container, spec, statuses) {
            Count::Unknown => unknown += 1,
            Count::Waiting => waiting += 1,
            Count::Running { .. } => running += 1,
            Count::Stopped { exit_code, waits, restarts } => {
                stopped += 1;
                for_good += u32::from(!restarts);
                succeeded += u32::from(exit_code == 0 && !waits);
            }
        }
    }
    if init_pending || (sidecars_pending && !initialized) || waiting > 0 || unknown > 0 {
        return "Pending";
    }
    if running > 0 {
        return "Running";
    }
    if stopped == 0 {
        return "Pending";
    }
    let result = if stopped == succeeded { "Succeeded" } else { "Failed" };
    match stage {
        Stage::Ended if !is_static_pod(pod) => result,
        // At least one is on its way to be started again.
        _ if stopped != for_good => "Running",
        _ => result,
    }
}

fn count(container: &Container, spec: &PodSpec, statuses: &[ContainerStatus]) -> Count {
    let Some(status) = status_of(statuses, &container.name) else { return Count::Unknown };
    let Some(state) = &status.state else { return Count::Unknown };
    if state.running.is_some() {
        return Count::Running { started: status.started == Some(true) };
    }
    let (ended, waits) = match (&state.terminated, &state.waiting) {
        (Some(ended), _) => (Some(ended), false),
        (None, Some(_)) => (terminated(status.last_state.as_ref()), true),
        (None, None) => return Count::Unknown,
    };
    ended.map_or(Count::Waiting, |ended| Count::Stopped {
        exit_code: ended.exit_code,
        waits,
        restarts: container_should_restart(container, spec, ended.exit_code)
            || ended.reason.as_deref() == Some(RESTARTING_ALL),
    })
}
