//! Regular containers: which are kept, killed and started.

use k8s_openapi::api::core::v1::Container;

use super::{ContainerToKill, Context, KillReason, PodActions, PostStart, ProbeResult, SpecIndex, resize};
use crate::container::{ContainerState, ContainerStatus, hash_container};
use crate::restart_policy::{restarts_when_killed, should_container_be_restarted};

/// Decides about the regular containers of an initialized pod in a good sandbox. If in the end none is kept and none started,
/// the pod has run its course and is killed.
pub(super) fn compute(context: &Context<'_>, actions: &mut PodActions) {
    let mut kept = 0;
    for (index, container) in context.spec.containers.iter().enumerate() {
        let running = match context.status.container(&container.name) {
            Some(newest) if newest.state == ContainerState::Running => newest,
            newest => {
                start_if_wanted(context, index, container, newest, actions);
                continue;
            }
        };
        if let Some((kill, restart)) = reason_to_kill(context, index, container, running) {
            if restart == Restart::Now {
                actions.containers_to_start.push(index);
            }
            kept += usize::from(restart == Restart::OnceItEnded);
            actions.containers_to_kill.insert(running.id.clone(), kill);
        } else if resize::compute(context, SpecIndex::Regular(index), container, running, actions) {
            kept += 1;
        }
    }
    if kept == 0 && actions.containers_to_start.is_empty() {
        actions.kill_pod = true;
        // Sidecars alone must not keep a pod alive.
        actions.init_containers_to_start.clear();
    }
    actions.update_pod_level_resources = resize::pod_level_changed(context.spec, &context.observed.actuated);
}

/// Whether a container that is killed starts again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Restart {
    /// In the same sync.
    Now,
    /// Not because of this.
    No,
    /// Policy decides once it has ended; until then it counts as kept.
    OnceItEnded,
}

fn start_if_wanted(
    context: &Context<'_>,
    index: usize,
    container: &Container,
    newest: Option<&ContainerStatus>,
    actions: &mut PodActions,
) {
    if !should_container_be_restarted(container, context.pod, context.spec, context.status) {
        return;
    }
    actions.containers_to_start.push(index);
    // It may run after all; two of them must not.
    if let Some(unknown) = newest.filter(|newest| newest.state == ContainerState::Unknown) {
        let message = format!("Container is in \"{}\" state, try killing it before restart", unknown.state);
        let kill = kill(container, SpecIndex::Regular(index), message, KillReason::Unknown);
        actions.containers_to_kill.insert(unknown.id.clone(), kill);
    }
}

/// Why a running container is to be killed, if it is. A changed definition goes before everything else, and restarts the
/// container whatever its policy.
fn reason_to_kill(
    context: &Context<'_>,
    index: usize,
    container: &Container,
    running: &ContainerStatus,
) -> Option<(ContainerToKill, Restart)> {
    let observed = context.observed;
    let failed =
        |results: &std::collections::HashMap<_, _>| results.get(&running.id) == Some(&ProbeResult::Failure);
    let name = &container.name;
    let by_policy = if restarts_when_killed(container, context.spec) { Restart::Now } else { Restart::No };
    let (message, reason, restart) = if running.hash != hash_container(container) {
        (format!("Container {name} definition changed"), KillReason::DefinitionChanged, Restart::Now)
    } else if observed.post_start.get(&running.id) == Some(&PostStart::Failed) {
        let message = KillReason::FailedPostStartHook.as_str().to_owned();
        (message, KillReason::FailedPostStartHook, Restart::OnceItEnded)
    } else if failed(&observed.liveness) {
        (format!("Container {name} failed liveness probe"), KillReason::LivenessProbe, by_policy)
    } else if failed(&observed.startup) {
        (format!("Container {name} failed startup probe"), KillReason::StartupProbe, by_policy)
    } else {
        return None;
    };
    let message = if restart == Restart::Now { message + ", will be restarted" } else { message };
    Some((kill(container, SpecIndex::Regular(index), message, reason), restart))
}

pub(super) fn kill(
    container: &Container,
    spec: SpecIndex,
    message: String,
    reason: KillReason,
) -> ContainerToKill {
    ContainerToKill { name: container.name.clone(), spec, message, reason }
}
