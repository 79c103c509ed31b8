//! What is to be done to a pod's sandbox and containers.

mod containers;
mod init_containers;
pub mod resize;
mod sandbox;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use self::resize::ContainersToUpdate;
pub use self::sandbox::{SandboxChange, pod_sandbox_changed};
use crate::allocation::PodResources;
use crate::container::{ContainerId, PodStatus};
use crate::restart_policy::asks_to_restart_all;

/// What is to be done, in upstream's terms. By default: nothing.
///
/// To be carried out in this order: kill the pod, or else kill and reset containers; create the sandbox; start ephemeral
/// containers; start init containers, in order; update resources; start regular containers. Indexes are those of the lists in
/// the pod's spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodActions {
    /// Stop all containers, of every kind, and the sandbox. Set as well where there is nothing to stop yet.
    pub kill_pod: bool,
    /// Make a sandbox (after `kill_pod`, and after all init containers have been removed).
    pub create_sandbox: bool,
    /// The sandbox there is, into which containers are started; none where there is none, or where the one there is has
    /// the wrong network.
    pub sandbox_id: Option<String>,
    /// The attempt number of the sandbox: of the one to make, or of the one there is.
    pub attempt: u32,
    /// Init containers to start. None of the ordinary ones is among them while another one runs.
    pub init_containers_to_start: Vec<usize>,
    /// Regular containers to start.
    pub containers_to_start: Vec<usize>,
    /// Ephemeral containers to start.
    pub ephemeral_containers_to_start: Vec<usize>,
    /// Containers to kill; some of them are to be started as well. Nothing is here where `kill_pod` comes of a sandbox.
    pub containers_to_kill: BTreeMap<ContainerId, ContainerToKill>,
    /// Containers to kill and remove, in this order, so that the whole pod starts over in its sandbox.
    pub containers_to_reset: Vec<ContainerToReset>,
    /// Running containers whose resources are to be updated.
    pub containers_to_update: ContainersToUpdate,
    /// A container is restarted to change its resources, so the pod's cgroup changes too.
    pub update_pod_resources: bool,
    /// The resources of the pod as a whole are to be updated.
    pub update_pod_level_resources: bool,
}

/// A container to kill, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerToKill {
    /// Its name.
    pub name: String,
    /// Where its spec is.
    pub spec: SpecIndex,
    /// Why, in words, as the event tells it.
    pub message: String,
    /// Why, for policy.
    pub reason: KillReason,
}

/// A container to remove so that the pod starts over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerToReset {
    /// Its id.
    pub id: ContainerId,
    /// Where its spec is.
    pub spec: SpecIndex,
    /// Whether it has to be killed first, without grace.
    pub kill: bool,
}

/// Where the spec of a container is in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecIndex {
    /// Among the init containers.
    Init(usize),
    /// Among the regular ones.
    Regular(usize),
}

impl SpecIndex {
    /// The spec, where `pod` is the one that the index was made for.
    pub fn of(self, pod: &Pod) -> Option<&Container> {
        let spec = pod.spec.as_ref()?;
        match self {
            Self::Init(index) => spec.init_containers.as_ref()?.get(index),
            Self::Regular(index) => spec.containers.get(index),
        }
    }
}

/// Why a container is killed. Probes may set a grace of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillReason {
    /// It failed its startup probe.
    StartupProbe,
    /// It failed its liveness probe.
    LivenessProbe,
    /// Its hook after the start failed.
    FailedPostStartHook,
    /// A rule of one of the pod's containers asks that all be restarted.
    RestartAllContainers,
    /// Its state is unknown, or nothing more is to be said.
    Unknown,
    /// Its spec is no longer the one it was made from.
    DefinitionChanged,
    /// Its resources change in a way that asks for a restart.
    Resize,
}

impl KillReason {
    /// Upstream's word for it; empty for those that have none there.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StartupProbe => "StartupProbe",
            Self::LivenessProbe => "LivenessProbe",
            Self::FailedPostStartHook => "FailedPostStartHook",
            Self::RestartAllContainers => "RestartAllContainers",
            Self::Unknown => "Unknown",
            Self::DefinitionChanged | Self::Resize => "",
        }
    }
}

/// What a probe last found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// The container is well.
    Success,
    /// It is not.
    Failure,
    /// The probe could not tell, or has begun only.
    Unknown,
}

/// Where a container's hook after the start has got to. One without hook, or whose hook is done, has no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostStart {
    /// It has begun; a sidecar does not count as started before it is done.
    Running,
    /// It failed: the container is to be killed, and its restart is decided when it has ended.
    Failed,
}

/// What is known of a pod besides its spec and what the runtime tells. By default: nothing.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// The results of liveness probes; a container that was not probed yet has none.
    pub liveness: HashMap<ContainerId, ProbeResult>,
    /// The results of startup probes.
    pub startup: HashMap<ContainerId, ProbeResult>,
    /// Hooks after the start that are not done, or failed.
    pub post_start: HashMap<ContainerId, PostStart>,
    /// The resources that the pod and its containers were last given.
    pub actuated: PodResources,
    /// Whether all containers are to start over, see [`RestartOfAll`](crate::restart_policy::RestartOfAll).
    pub restart_all_containers: bool,
}

/// Decides what is to be done to a pod, by what is wanted (`pod`), what is (`status`) and what was observed besides.
///
/// The outcomes are those of `computePodActions` in Kubernetes 1.36 with its default gates. Time has no part in it: whether
/// a container to start is held back is the back-off's to say ([`super::back_off`]), when it comes to starting it.
pub fn compute_pod_actions(pod: &Pod, status: &PodStatus, observed: &Observations) -> PodActions {
    let Some(spec) = &pod.spec else { return PodActions::default() };
    let sandbox = pod_sandbox_changed(pod, status);
    let mut actions = PodActions {
        kill_pod: sandbox.changed,
        create_sandbox: sandbox.changed,
        sandbox_id: sandbox.id,
        attempt: sandbox.attempt,
        ..PodActions::default()
    };
    if observed.restart_all_containers {
        actions.containers_to_reset = containers_to_reset(spec, status);
        return actions;
    }
    if sandbox.changed {
        sandbox::start_over(spec, status, &mut actions);
        return actions;
    }

    // Ephemeral containers do not wait for initialization, and are never restarted.
    let ephemeral = spec.ephemeral_containers.iter().flatten().enumerate();
    actions.ephemeral_containers_to_start = ephemeral
        .filter(|(_, container)| status.container(&container.name).is_none())
        .map(|(index, _)| index)
        .collect();

    let context = Context { pod, spec, status, observed };
    let initialized = init_containers::compute(&context, &mut actions);
    if actions.kill_pod || !initialized {
        return actions;
    }
    containers::compute(&context, &mut actions);
    actions
}

/// What every policy here looks at.
struct Context<'a> {
    pod: &'a Pod,
    spec: &'a PodSpec,
    status: &'a PodStatus,
    observed: &'a Observations,
}

/// What to remove when all containers start over: first those that merely have to, then those whose end asked for it, so that
/// a restart that breaks off half way is recognised and taken up again.
fn containers_to_reset(spec: &PodSpec, status: &PodStatus) -> Vec<ContainerToReset> {
    let (mut sources, mut targets) = (Vec::new(), Vec::new());
    let regular = spec.containers.iter().enumerate().map(|(index, of)| (SpecIndex::Regular(index), of));
    let init = spec.init_containers.iter().flatten().enumerate();
    let init = init.map(|(index, of)| (SpecIndex::Init(index), of));
    for (index, container) in regular.chain(init) {
        for of_name in status.containers.iter().filter(|of_name| of_name.name == container.name) {
            let exited = of_name.state == crate::container::ContainerState::Exited;
            let reset = ContainerToReset { id: of_name.id.clone(), spec: index, kill: !exited };
            if exited && asks_to_restart_all(container, of_name.exit_code) {
                sources.push(reset);
            } else {
                targets.push(reset);
            }
        }
    }
    targets.extend(sources);
    targets
}
