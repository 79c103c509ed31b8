//! What an inspection of one pod yields.

use jiff::Timestamp;
use steersman_api::Uid;

use super::id::ContainerId;
use super::state::{ContainerState, NamespaceMode, SandboxState};

/// All that the runtime tells of one pod (`kubecontainer.PodStatus` upstream).
///
/// A pod of which the runtime knows nothing has an empty one, see [`PodStatus::unknown_to_runtime`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodStatus {
    /// The pod's uid.
    pub uid: Uid,
    /// The pod's name; empty where the runtime knows nothing of it.
    pub name: String,
    /// The pod's namespace; empty where the runtime knows nothing of it.
    pub namespace: String,
    /// The addresses of the newest sandbox, the first one first. None for pods in the node's network.
    pub ips: Vec<String>,
    /// All its containers, those that ended too, the newest first: so the first of a name is the current one.
    pub containers: Vec<ContainerStatus>,
    /// All its sandboxes, the newest first.
    pub sandboxes: Vec<SandboxStatus>,
}

impl PodStatus {
    /// The status of a pod of which the runtime knows nothing.
    pub fn unknown_to_runtime(uid: Uid) -> Self {
        Self { uid, ..Self::default() }
    }

    /// The newest container of that name.
    pub fn container(&self, name: &str) -> Option<&ContainerStatus> {
        self.containers.iter().find(|container| container.name == name)
    }

    /// The containers that run.
    pub fn running(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.containers.iter().filter(|container| container.state == ContainerState::Running)
    }

    /// The sandbox in use: the newest one, if it is ready.
    pub fn active_sandbox(&self) -> Option<&SandboxStatus> {
        self.sandboxes.first().filter(|sandbox| sandbox.state == SandboxState::Ready)
    }

    /// The containers of the sandbox in use, the newest first; none where no sandbox is.
    pub fn active_containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        let active = self.active_sandbox().map(|sandbox| sandbox.id.as_str());
        self.containers.iter().filter(move |container| active == Some(container.sandbox_id.as_str()))
    }
}

/// One sandbox, inspected.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxStatus {
    /// Its id.
    pub id: String,
    /// Whether it stands.
    pub state: SandboxState,
    /// How many sandboxes the pod had before it.
    pub attempt: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// Whose network it uses.
    pub network_mode: NamespaceMode,
    /// Its network, where the runtime tells of one.
    pub network: Option<SandboxNetwork>,
    /// The runtime handler it was made with; empty for the runtime's own choice.
    pub runtime_handler: String,
}

/// A sandbox's addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SandboxNetwork {
    /// The first address; empty where it has none (yet, or any more).
    pub ip: String,
    /// The addresses of other families.
    pub additional_ips: Vec<String>,
}

/// One container, inspected (`kubecontainer.Status` upstream).
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerStatus {
    /// Its id.
    pub id: ContainerId,
    /// Its name in the pod's spec.
    pub name: String,
    /// The sandbox it is in.
    pub sandbox_id: String,
    /// What it is doing.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was started, unless it never was.
    pub started_at: Option<Timestamp>,
    /// When it ended, once it has.
    pub finished_at: Option<Timestamp>,
    /// What it ended with; 0 before.
    pub exit_code: i32,
    /// The image as the pod named it.
    pub image: String,
    /// The image's id in the runtime.
    pub image_id: String,
    /// The image's reference by digest.
    pub image_ref: String,
    /// The hash of the spec it was made from, see [`super::hash_container`]; 0 where its annotation is missing.
    pub hash: u64,
    /// How many containers of its name the pod had before it.
    pub restart_count: u32,
    /// Why it is in its state, a word, for instance `OOMKilled`.
    pub reason: String,
    /// What it left as termination message, or the runtime's own words.
    pub message: String,
    /// What it may use, where the runtime tells.
    pub resources: Option<ContainerResources>,
    /// Who its first process is, where the runtime tells.
    pub user: Option<LinuxContainerUser>,
    /// The signal it is stopped with, for instance `SIGTERM`, where the runtime tells.
    pub stop_signal: Option<String>,
}

/// What a running container was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerResources {
    /// Processor time asked for, in thousandths.
    pub cpu_request_milli: Option<i64>,
    /// Processor time at most, in thousandths.
    pub cpu_limit_milli: Option<i64>,
    /// Memory asked for, in bytes.
    pub memory_request: Option<i64>,
    /// Memory at most, in bytes.
    pub memory_limit: Option<i64>,
}

/// The identity of a container's first process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxContainerUser {
    /// Its user.
    pub uid: i64,
    /// Its group.
    pub gid: i64,
    /// Its further groups.
    pub supplemental_groups: Vec<i64>,
}
