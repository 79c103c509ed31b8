//! A node around a [`Kuberuntime`], and short words for what tests do with it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod, Secret};
use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_api::Uid;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::allocation::Store;
use crate::cgroups::{PodCgroups, PodMemory};
use crate::container::{ContainerStatus, PodStatus, RuntimePod};
use crate::cri::{Client, v1};
use crate::events::testing::Kept;
use crate::images::{ImageError, ImageErrorReason, ImageManager};
use crate::interrupt::Interrupt;
use crate::kuberuntime::actions::ProbeResult;
use crate::kuberuntime::container_config::{CgroupVersion, NodeFacts};
use crate::kuberuntime::helper::{ContainerOptions, RuntimeHelper};
use crate::kuberuntime::manager::{
    Kuberuntime, Metrics, Options, Parts, RunningPod, SandboxReady, SyncInputs, WallClock, machine_clock,
};
use crate::kuberuntime::sync_result::PodSyncResult;
use crate::pleg::PodLister;
use crate::probes::Results;
use crate::root_dir::RootDir;
use crate::runtime::simulated::{Logs, PREFIX, SimulatedConfig, SimulatedRuntime};
use crate::runtime::{ImageService, Operation, RuntimeService};

pub(super) const IMAGE: &str = "docker.io/library/busybox:1.36";

/// A node, its runtime, and what was said.
pub(super) struct World {
    pub(super) simulated: SimulatedRuntime,
    pub(super) kuberuntime: Arc<Kuberuntime>,
    pub(super) events: Arc<Kept>,
    pub(super) node: Arc<Node>,
    pub(super) metrics: Metrics,
    pub(super) liveness: Results,
    pub(super) startup: Results,
    pub(super) interrupt: Interrupt,
    pub(super) folder: TempDir,
    clock: WallClock,
}

/// What the rest of the node says when it is asked, and what it was told.
#[derive(Default)]
pub(super) struct Node {
    /// Images that are not to be had, and why.
    pub(super) missing: Mutex<HashMap<String, ImageErrorReason>>,
    /// What is wrong with the options of a container.
    pub(super) bad_options: Mutex<HashMap<String, String>>,
    /// What is wrong with the DNS of all pods.
    pub(super) bad_dns: Mutex<Option<String>>,
    /// The addresses that containers were configured with.
    pub(super) ips: Mutex<Vec<Vec<String>>>,
    /// How often a sandbox was said to be ready.
    pub(super) ready: Mutex<u32>,
    /// The limits of processor time of all containers, each time the pod's cgroup was set.
    pub(super) cgroup: Mutex<Vec<Vec<String>>>,
    /// How the pod's cgroup is held to its memory.
    pub(super) memory: Mutex<PodMemory>,
}

impl Node {
    fn counts_sandboxes(self: &Arc<Self>) -> SandboxReady {
        let node = self.clone();
        Arc::new(move |_| *node.ready.lock() += 1)
    }
}

#[async_trait]
impl RuntimeHelper for Node {
    async fn pod_dns(&self, _pod: &Pod) -> Result<v1::DnsConfig, String> {
        self.bad_dns.lock().clone().map_or(Ok(v1::DnsConfig::default()), Err)
    }

    fn hostname_and_domain(&self, pod: &Pod) -> Result<(String, String), String> {
        Ok((pod.metadata.name.clone().unwrap_or_default(), String::new()))
    }

    fn cgroup_parent(&self, _pod: &Pod) -> String {
        String::new()
    }

    fn extra_supplemental_groups(&self, _pod: &Pod) -> Vec<i64> {
        Vec::new()
    }

    async fn container_options(
        &self,
        _pod: &Pod,
        container: &Container,
        pod_ips: &[String],
    ) -> Result<ContainerOptions, String> {
        self.ips.lock().push(pod_ips.to_vec());
        let bad = self.bad_options.lock().get(&container.name).cloned();
        bad.map_or(Ok(ContainerOptions::default()), Err)
    }
}

#[async_trait]
impl ImageManager for Node {
    async fn ensure_image_exists(
        &self,
        _pod: &Pod,
        container: &Container,
        _involved: &ObjectReference,
        _pull_secrets: &[Secret],
        _sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<String, ImageError> {
        let image = container.image.clone().unwrap_or_default();
        match self.missing.lock().get(&image) {
            Some(reason) => Err(ImageError { reason: *reason, message: format!("no {image}") }),
            None => Ok(image),
        }
    }
}

impl PodCgroups for Node {
    fn parent_of(&self, _pod: &Pod) -> String {
        String::new()
    }

    fn ensure(&self, pod: &Pod) -> io::Result<()> {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let limit = |container: &Container| {
            let limits = container.resources.as_ref().and_then(|of| of.limits.as_ref());
            limits.and_then(|limits| limits.get("cpu")).map_or("none".to_owned(), |limit| limit.0.clone())
        };
        self.cgroup.lock().push(containers.map(limit).collect());
        Ok(())
    }

    fn resize(&self, pod: &Pod) -> io::Result<()> {
        self.ensure(pod)
    }

    fn memory(&self, _pod: &Pod) -> PodMemory {
        *self.memory.lock()
    }

    fn exists(&self, _pod: &Pod) -> bool {
        true
    }

    fn given(&self, _pod: &Pod) -> crate::container::ContainerResources {
        crate::container::ContainerResources::default()
    }

    fn remove(&self, _pod: &Uid) -> io::Result<()> {
        Ok(())
    }

    fn pods(&self) -> io::Result<HashMap<Uid, String>> {
        Ok(HashMap::new())
    }
}

pub(super) fn node_facts() -> NodeFacts {
    NodeFacts {
        memory_capacity: 8_000_000_000,
        cgroup_version: CgroupVersion::V1,
        swap_controller: false,
        huge_page_sizes: Vec::new(),
        thermal_throttle: Vec::new(),
        selinux: false,
        cpu_cfs_quota: true,
        cpu_cfs_quota_period: Duration::from_millis(100),
        single_process_oom_kill: true,
        seccomp_default: false,
        seccomp_profile_root: PathBuf::from("/nowhere"),
    }
}

fn options(folder: &Path, facts: NodeFacts) -> Options {
    Options {
        pod_logs: folder.join("logs"),
        container_log_links: folder.join("links"),
        ..Options::new("test", RootDir::new(folder.join("root")), facts)
    }
}

impl World {
    /// A node on the simulated runtime, whose stamps follow tokio's clock.
    pub(super) fn new() -> Self {
        let wall: Timestamp = "2026-05-06T07:08:09Z".parse().unwrap();
        let simulated = SimulatedRuntime::new(SimulatedConfig {
            images: vec![IMAGE.into()],
            logs: Logs::Written,
            wall,
            ..SimulatedConfig::default()
        });
        let began = Instant::now();
        let clock = move || wall + SignedDuration::try_from(began.elapsed()).unwrap();
        let (runtime, images) = (Arc::new(simulated.clone()), Arc::new(simulated.clone()));
        Self::on(runtime, images, simulated, Arc::new(clock), node_facts())
    }

    /// A node on a real runtime; the simulated one stands by.
    pub(super) fn real(client: Client) -> Self {
        let runtime = Arc::new(client);
        let simulated = SimulatedRuntime::new(SimulatedConfig::default());
        let facts = NodeFacts::of_this_machine(Path::new("/var/lib/kubelet"));
        Self::on(runtime.clone(), runtime, simulated, machine_clock(), facts)
    }

    fn on(
        runtime: Arc<dyn RuntimeService>,
        image_service: Arc<dyn ImageService>,
        simulated: SimulatedRuntime,
        clock: WallClock,
        facts: NodeFacts,
    ) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join("links")).unwrap();
        let (events, node) = (Arc::new(Kept::default()), Arc::new(Node::default()));
        let metrics = Metrics::new().unwrap();
        let parts = Parts {
            runtime,
            image_service,
            images: node.clone(),
            helper: node.clone(),
            cgroups: node.clone(),
            sandbox_ready: node.counts_sandboxes(),
            events: events.clone(),
            actuated: Store::in_memory(),
            metrics: metrics.clone(),
            clock: clock.clone(),
            options: options(folder.path(), facts),
        };
        Self {
            simulated,
            kuberuntime: Arc::new(Kuberuntime::new(parts)),
            events,
            node,
            metrics,
            liveness: Results::default(),
            startup: Results::default(),
            interrupt: Interrupt::new(),
            folder,
            clock,
        }
    }

    /// The same node after its agent was started again: what it only remembered is lost.
    pub(super) fn restarted(self) -> Self {
        self.restarted_with(Store::in_memory())
    }

    /// Likewise, with what a file says that containers were given.
    pub(super) fn restarted_with(self, actuated: Store) -> Self {
        let runtime = Arc::new(self.simulated.clone());
        let parts = Parts {
            runtime: runtime.clone(),
            image_service: runtime,
            images: self.node.clone(),
            helper: self.node.clone(),
            cgroups: self.node.clone(),
            sandbox_ready: self.node.counts_sandboxes(),
            events: self.events.clone(),
            actuated,
            metrics: self.metrics.clone(),
            clock: self.clock.clone(),
            options: options(self.folder.path(), node_facts()),
        };
        Self { kuberuntime: Arc::new(Kuberuntime::new(parts)), ..self }
    }

    /// The pod as listed.
    pub(super) async fn listed(&self, pod: &Pod) -> Option<RuntimePod> {
        let uid = pod.metadata.uid.as_deref().unwrap().into();
        self.kuberuntime.pod(&uid).await.unwrap()
    }

    /// The pod's status as inspected now.
    pub(super) async fn status(&self, pod: &Pod) -> PodStatus {
        match self.listed(pod).await {
            Some(listed) => self.kuberuntime.pod_status(&listed).await.unwrap(),
            None => PodStatus::unknown_to_runtime(pod.metadata.uid.as_deref().unwrap().into()),
        }
    }

    /// Inspects and syncs the pod once.
    pub(super) async fn sync(&self, pod: &Pod) -> PodSyncResult {
        let status = self.status(pod).await;
        self.sync_seeing(pod, &status).await
    }

    pub(super) async fn sync_seeing(&self, pod: &Pod, status: &PodStatus) -> PodSyncResult {
        self.kuberuntime.sync_pod(pod, status, &self.inputs()).await
    }

    pub(super) fn inputs(&self) -> SyncInputs<'_> {
        SyncInputs {
            liveness: &self.liveness,
            startup: &self.startup,
            pull_secrets: &[],
            restart_all_containers: false,
            interrupt: &self.interrupt,
        }
    }

    /// Syncs, and nothing fails.
    pub(super) async fn synced(&self, pod: &Pod) -> PodStatus {
        let result = self.sync(pod).await;
        assert_eq!(result.error_text(), None);
        self.status(pod).await
    }

    /// Stops the pod as its worker does.
    pub(super) async fn kill(&self, pod: &Pod) -> PodSyncResult {
        let running = RunningPod::from(&self.status(pod).await);
        self.kuberuntime.kill_pod(pod, &running, None).await
    }

    /// The newest container of that name.
    pub(super) async fn container(&self, pod: &Pod, name: &str) -> ContainerStatus {
        self.status(pod).await.container(name).unwrap().clone()
    }

    pub(super) async fn fails_liveness(&self, pod: &Pod, name: &str) {
        let id = self.container(pod, name).await.id;
        self.liveness.set(&id, ProbeResult::Failure);
    }

    /// The calls of these kinds so far, each with the container's or pod's name it was about.
    pub(super) fn calls(&self, kinds: &[Operation]) -> Vec<(Operation, Instant)> {
        let calls = self.simulated.calls().into_iter();
        calls.filter(|call| kinds.contains(&call.operation)).map(|call| (call.operation, call.at)).collect()
    }

    /// How often a call was made.
    pub(super) fn count(&self, kind: Operation) -> usize {
        self.calls(&[kind]).len()
    }

    /// What was said with that reason: the field path and the message of each.
    pub(super) fn said(&self, reason: &str) -> Vec<(String, String)> {
        let said = self.events.all().into_iter().filter(|said| said.reason == reason);
        said.map(|said| (said.field_path, said.message)).collect()
    }
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) async fn pass(time: u64) {
    tokio::time::sleep(seconds(time)).await;
}

/// The pod `shop/web` of that spec, and annotations for the simulation.
pub(super) fn pod(annotations: &[(&str, &str)], spec: Value) -> Pod {
    named("web", annotations, spec)
}

pub(super) fn named(name: &str, annotations: &[(&str, &str)], spec: Value) -> Pod {
    let annotations: BTreeMap<String, &str> =
        annotations.iter().map(|(key, value)| (format!("{PREFIX}{key}"), *value)).collect();
    let metadata = json!({
        "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "annotations": annotations,
    });
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// A container of that name, with what else is said.
pub(super) fn app(name: &str, more: Value) -> Value {
    let mut container = json!({"name": name, "image": IMAGE});
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    container
}
