//! Pods, and what the runtime tells of them, for tests.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, PodSpec, Probe};
use steersman_api::Uid;

use super::{Observations, PodActions, PostStart, ProbeResult, compute_pod_actions};
use crate::container::{
    ContainerId, ContainerState, ContainerStatus, NamespaceMode, PodStatus, SandboxNetwork, SandboxState,
    SandboxStatus, hash_container,
};

/// A pod, what the runtime tells of it, and what was observed besides.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) pod: Pod,
    pub(crate) status: PodStatus,
    pub(crate) observed: Observations,
}

pub(crate) fn id(id: &str) -> ContainerId {
    ContainerId::new("containerd", id)
}

/// A container's spec.
pub(crate) fn spec(name: &str, image: &str) -> Container {
    Container { name: name.into(), image: Some(image.into()), ..Container::default() }
}

/// A container in the sandbox `sandbox`, made from no spec.
pub(crate) fn container(id_: &str, name: &str, state: ContainerState) -> ContainerStatus {
    ContainerStatus {
        id: id(id_),
        name: name.into(),
        sandbox_id: "sandbox".into(),
        state,
        created_at: Timestamp::UNIX_EPOCH,
        started_at: None,
        finished_at: None,
        exit_code: 0,
        image: String::new(),
        image_id: String::new(),
        image_ref: String::new(),
        hash: 0,
        restart_count: 0,
        reason: String::new(),
        message: String::new(),
        resources: None,
        user: None,
        stop_signal: None,
    }
}

/// A container made from `spec`.
pub(crate) fn made_from(spec: &Container, id: &str, state: ContainerState) -> ContainerStatus {
    ContainerStatus { hash: hash_container(spec), ..container(id, &spec.name, state) }
}

/// A ready sandbox with an address.
pub(crate) fn sandbox(id: &str, attempt: u32) -> SandboxStatus {
    SandboxStatus {
        id: id.into(),
        state: SandboxState::Ready,
        attempt,
        created_at: Timestamp::UNIX_EPOCH,
        network_mode: NamespaceMode::Pod,
        network: Some(SandboxNetwork { ip: "10.0.0.1".into(), additional_ips: Vec::new() }),
        runtime_handler: String::new(),
    }
}

/// The pod `foo-ns/foo` of three containers, `foo1` to `foo3`, all of which run as `id1` to `id3` in one ready sandbox.
pub(crate) fn base() -> Scene {
    let containers: Vec<Container> = (1..=3).map(|n| spec(&format!("foo{n}"), "busybox")).collect();
    let mut pod = Pod::default();
    pod.metadata.name = Some("foo".into());
    pod.metadata.namespace = Some("foo-ns".into());
    pod.metadata.uid = Some("12345678".into());
    let running =
        |(n, spec): (usize, &Container)| made_from(spec, &format!("id{}", n + 1), ContainerState::Running);
    let status = PodStatus {
        uid: Uid::from("12345678"),
        name: "foo".into(),
        namespace: "foo-ns".into(),
        ips: vec!["10.0.0.1".into()],
        containers: containers.iter().enumerate().map(running).collect(),
        sandboxes: vec![sandbox("sandbox", 0)],
    };
    pod.spec = Some(PodSpec { containers, ..PodSpec::default() });
    Scene { pod, status, observed: Observations::default() }
}

/// `init1` to `init3`, ordinary ones.
pub(crate) fn plain_init() -> Vec<Container> {
    (1..=3).map(|n| spec(&format!("init{n}"), "bar-image")).collect()
}

/// `sidecar1` to `sidecar3`; the second and third have liveness and startup probes.
pub(crate) fn sidecars() -> Vec<Container> {
    let sidecar = |n| {
        let probe = (n > 1).then(Probe::default);
        Container {
            restart_policy: Some("Always".into()),
            liveness_probe: probe.clone(),
            startup_probe: probe,
            ..spec(&format!("sidecar{n}"), "bar-image")
        }
    };
    (1..=3).map(sidecar).collect()
}

impl Scene {
    pub(crate) fn actions(&self) -> PodActions {
        compute_pod_actions(&self.pod, &self.status, &self.observed)
    }

    pub(crate) fn spec(&mut self) -> &mut PodSpec {
        self.pod.spec.as_mut().expect("a scene must have a spec")
    }

    /// With these init containers, which ended well (`initid1`, ...); the regular ones do not exist yet.
    pub(crate) fn with_init(mut self, init: Vec<Container>) -> Self {
        let sidecar = |spec: &Container| spec.restart_policy.is_some();
        let state = |spec| if sidecar(spec) { ContainerState::Running } else { ContainerState::Exited };
        let made = |(n, spec)| made_from(spec, &format!("initid{}", n + 1), state(spec));
        self.status.containers = init.iter().enumerate().map(made).collect();
        self.spec().init_containers = Some(init);
        self
    }

    /// With one ephemeral container more.
    pub(crate) fn with_ephemeral(mut self, name: &str) -> Self {
        let ephemeral = EphemeralContainer { name: name.into(), ..EphemeralContainer::default() };
        self.spec().ephemeral_containers.get_or_insert_default().push(ephemeral);
        self
    }

    /// With that restart policy.
    pub(crate) fn policy(mut self, policy: &str) -> Self {
        self.spec().restart_policy = Some(policy.into());
        self
    }

    /// With a restart policy of the container at `index` its own.
    pub(crate) fn own_policy(mut self, index: usize, policy: &str) -> Self {
        self.spec().containers[index].restart_policy = Some(policy.into());
        self
    }

    /// With the container at `index` of the status in that state.
    pub(crate) fn state(mut self, index: usize, state: ContainerState) -> Self {
        self.status.containers[index].state = state;
        self
    }

    /// With the container at `index` of the status ended.
    pub(crate) fn exited(mut self, index: usize, exit_code: i32) -> Self {
        self.status.containers[index].exit_code = exit_code;
        self.state(index, ContainerState::Exited)
    }

    /// With all regular containers beside those there are, in that state.
    pub(crate) fn regular(mut self, state: ContainerState) -> Self {
        let specs = self.spec().containers.clone();
        let made = |(n, spec): (usize, &Container)| made_from(spec, &format!("id{}", n + 1), state);
        self.status.containers.extend(specs.iter().enumerate().map(made));
        self
    }

    /// With only those containers in the status that `keep` names by index.
    pub(crate) fn only(mut self, keep: impl std::ops::RangeBounds<usize>) -> Self {
        let mut index = 0..;
        self.status.containers.retain(|_| keep.contains(&index.next().expect("indexes must not end")));
        self
    }

    /// With no container.
    pub(crate) fn no_containers(mut self) -> Self {
        self.status.containers.clear();
        self
    }

    /// With a dead sandbox of that attempt number.
    pub(crate) fn dead_sandbox(mut self, attempt: u32) -> Self {
        self.status.sandboxes[0].state = SandboxState::NotReady;
        self.status.sandboxes[0].attempt = attempt;
        self
    }

    /// With a result of a liveness probe.
    pub(crate) fn liveness(mut self, container: &str, result: ProbeResult) -> Self {
        self.observed.liveness.insert(id(container), result);
        self
    }

    /// With a result of a startup probe.
    pub(crate) fn startup(mut self, container: &str, result: ProbeResult) -> Self {
        self.observed.startup.insert(id(container), result);
        self
    }

    /// With a hook that is not done.
    pub(crate) fn post_start(mut self, container: &str, hook: PostStart) -> Self {
        self.observed.post_start.insert(id(container), hook);
        self
    }

    /// With `change` made to it.
    pub(crate) fn but(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}
