//! Init containers: one at a time, and sidecars kept running.

use k8s_openapi::api::core::v1::Container;

use super::containers::kill;
use super::{Context, KillReason, PodActions, PostStart, ProbeResult, SpecIndex, resize};
use crate::container::{ContainerState, ContainerStatus, hash_container};
use crate::restart_policy::{
    is_restartable_init_container, restarts_when_killed, should_container_be_restarted,
};

/// What an init container's state means for the pod.
enum Step {
    /// It is under way, or about to be: the next one waits.
    Waits,
    /// It is done, or as a sidecar has started: the next one may begin.
    Initialized,
    /// It failed for good, and the pod with it.
    PodFailed,
}

/// Decides about the init containers of a pod in a good sandbox; true if the pod is initialized.
///
/// Ended init containers may have been removed, so the last one that the runtime knows tells how far the pod has got, and
/// those before it have been done. From the last to the first: the first one met is the current one; after it only sidecars
/// matter, which are kept running.
pub(super) fn compute(context: &Context<'_>, actions: &mut PodActions) -> bool {
    let Some(init) = context.spec.init_containers.as_ref().filter(|init| !init.is_empty()) else {
        return true;
    };
    let mut pod_initialized = any_regular_container_active(context);
    let mut behind_current = pod_initialized;
    // Collected from the last to the first.
    let mut to_start = Vec::new();
    for (index, container) in init.iter().enumerate().rev() {
        let sidecar = is_restartable_init_container(container);
        let Some(newest) = context.status.container(&container.name) else {
            // A sidecar that has been there before was removed behind our back.
            if behind_current && sidecar {
                to_start.push(index);
            }
            continue;
        };
        if behind_current && !sidecar {
            continue;
        }
        let at = Candidate { context, index, container, newest };
        let step = if sidecar {
            at.sidecar(behind_current, index + 1 == init.len(), &mut to_start, actions)
        } else {
            at.ordinary(&mut to_start, actions)
        };
        match step {
            Step::PodFailed => {
                actions.kill_pod = true;
                actions.init_containers_to_start.clear();
                return false;
            }
            Step::Initialized if index + 1 == init.len() => pod_initialized = true,
            Step::Initialized | Step::Waits => {}
        }
        behind_current = true;
    }
    if !behind_current {
        to_start.push(0);
    }
    to_start.reverse();
    actions.init_containers_to_start = to_start;
    pod_initialized
}

/// Whether a regular container shows that initialization is over. One that ended shows nothing: it may be of the sandbox
/// before this one.
fn any_regular_container_active(context: &Context<'_>) -> bool {
    let regular = context.spec.containers.iter();
    let mut known = regular.filter_map(|container| context.status.container(&container.name));
    known.any(|newest| matches!(newest.state, ContainerState::Created | ContainerState::Running))
}

/// An init container that has to be decided about.
struct Candidate<'a> {
    context: &'a Context<'a>,
    index: usize,
    container: &'a Container,
    newest: &'a ContainerStatus,
}

impl Candidate<'_> {
    fn kill(&self, message: String, reason: KillReason, actions: &mut PodActions) {
        let kill = kill(self.container, SpecIndex::Init(self.index), message, reason);
        actions.containers_to_kill.insert(self.newest.id.clone(), kill);
    }

    fn kill_unknown(&self, actions: &mut PodActions) {
        let state = self.newest.state;
        let message = format!("Init container is in \"{state}\" state, try killing it before restart");
        self.kill(message, KillReason::Unknown, actions);
    }

    fn ordinary(&self, to_start: &mut Vec<usize>, actions: &mut PodActions) -> Step {
        let Context { pod, spec, status, .. } = *self.context;
        match self.newest.state {
            // Creating and starting are one step: its start failed.
            ContainerState::Created => to_start.push(self.index),
            ContainerState::Running => {
                let spec = SpecIndex::Init(self.index);
                if !resize::compute(self.context, spec, self.container, self.newest, actions) {
                    to_start.push(self.index);
                }
            }
            // Killed for want of memory is failed, whatever it ended with.
            ContainerState::Exited if self.newest.exit_code != 0 || self.newest.reason == "OOMKilled" => {
                if !should_container_be_restarted(self.container, pod, spec, status) {
                    return Step::PodFailed;
                }
                to_start.push(self.index);
            }
            ContainerState::Exited => {
                if self.index + 1 < spec.init_containers.iter().flatten().count() {
                    to_start.push(self.index + 1);
                }
                return Step::Initialized;
            }
            ContainerState::Unknown => {
                if !restarts_when_killed(self.container, spec) {
                    return Step::PodFailed;
                }
                self.kill_unknown(actions);
                to_start.push(self.index);
            }
        }
        Step::Waits
    }

    /// `behind_current`: whether a later one has been started, so that this one need not start the next. `last`: whether there
    /// is no next.
    fn sidecar(
        &self,
        behind_current: bool,
        last: bool,
        to_start: &mut Vec<usize>,
        actions: &mut PodActions,
    ) -> Step {
        match self.newest.state {
            ContainerState::Created | ContainerState::Exited => to_start.push(self.index),
            ContainerState::Unknown => {
                self.kill_unknown(actions);
                to_start.push(self.index);
            }
            ContainerState::Running => {
                if !self.has_started(to_start, actions) {
                    return Step::Waits;
                }
                if !last && !behind_current {
                    to_start.push(self.index + 1);
                }
                self.keep_running(to_start, actions);
                return Step::Initialized;
            }
        }
        Step::Waits
    }

    /// Whether a running sidecar has come so far that the next init container may start: its hook is done and its startup
    /// probe succeeded.
    fn has_started(&self, to_start: &mut Vec<usize>, actions: &mut PodActions) -> bool {
        let (observed, id) = (self.context.observed, &self.newest.id);
        match observed.post_start.get(id) {
            Some(PostStart::Running) => return false,
            Some(PostStart::Failed) => {
                let reason = KillReason::FailedPostStartHook;
                self.kill(reason.as_str().to_owned(), reason, actions);
                return false;
            }
            None => {}
        }
        if self.container.startup_probe.is_none() {
            return true;
        }
        let result = observed.startup.get(id);
        if result == Some(&ProbeResult::Failure) {
            let message = format!("Init container {} failed startup probe", self.container.name);
            self.kill(message, KillReason::StartupProbe, actions);
            to_start.push(self.index);
        }
        result == Some(&ProbeResult::Success)
    }

    /// Restarts a started sidecar whose definition changed or which is not live. Neither holds up the next init container.
    fn keep_running(&self, to_start: &mut Vec<usize>, actions: &mut PodActions) {
        let name = &self.container.name;
        if self.newest.hash != hash_container(self.container) {
            self.kill(
                format!("Init container {name} definition changed"),
                KillReason::DefinitionChanged,
                actions,
            );
            to_start.push(self.index);
            return;
        }
        if self.container.liveness_probe.is_some() {
            match self.context.observed.liveness.get(&self.newest.id) {
                // Not probed yet: nothing is done to it before.
                None => return,
                Some(ProbeResult::Failure) => {
                    let message = format!("Init container {name} failed liveness probe");
                    self.kill(message, KillReason::LivenessProbe, actions);
                    to_start.push(self.index);
                    return;
                }
                Some(ProbeResult::Success | ProbeResult::Unknown) => {}
            }
        }
        let spec = SpecIndex::Init(self.index);
        if !resize::compute(self.context, spec, self.container, self.newest, actions) {
            to_start.push(self.index);
        }
    }
}
