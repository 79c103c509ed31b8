//! The whole agent, on the simulated runtime and an API server in the same process.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use prometheus::Registry;
use serde_json::{Value, json};
use steersman_apiserver::{Calls, TestServer, Verb};
use steersman_client::{Clients, clients};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Agent, Connections, Error, Options};
use crate::client_certificate::ClientCertificate;
use crate::configuration::{CgroupDriver, KubeletConfiguration};
use crate::cri::v1;
use crate::kuberuntime::manager::garbage::Policy;
use crate::runtime::simulated::{Fault, Logs, SimulatedConfig, SimulatedRuntime};
use crate::runtime::{Operation, RuntimeService};

mod deletions;
mod restart_of_all;
mod runtime_pods;
mod settings;
mod taken_over;
mod unenforced;

/// What these tests wait for comes within this.
const SOON: Duration = Duration::from_secs(60);

/// An agent of the node `n`, and where it lives.
struct Rig {
    server: TestServer,
    runtime: SimulatedRuntime,
    folder: TempDir,
    /// How little memory the next agent may have left.
    least_memory: &'static str,
    /// Settings of the next agent whose guarantees it does not give.
    unmet_guarantees: Vec<String>,
    /// The next agent's client certificate.
    client_certificate: Option<ClientCertificate>,
    running: Option<(CancellationToken, JoinSet<Result<(), Error>>)>,
}

impl Rig {
    /// No agent runs.
    async fn new() -> Self {
        // The node counts a container's restarts by its logs where the runtime has removed the container itself.
        let config = SimulatedConfig { logs: Logs::Written, ..SimulatedConfig::default() };
        let runtime = SimulatedRuntime::new(config);
        let (server, folder) = (TestServer::start().await, tempfile::tempdir().unwrap());
        Self {
            server,
            runtime,
            folder,
            least_memory: "1Mi",
            unmet_guarantees: Vec::new(),
            client_certificate: None,
            running: None,
        }
    }

    async fn start() -> Self {
        let mut rig = Self::new().await;
        rig.start_agent();
        rig
    }

    fn start_agent(&mut self) {
        let (agent, stop, mut running) = (self.agent(), CancellationToken::new(), JoinSet::new());
        running.spawn(agent.run(stop.clone()));
        self.running = Some((stop, running));
    }

    fn agent(&self) -> Agent {
        let (options, connections) = self.settings();
        Agent::new(options, connections, Registry::new()).unwrap()
    }

    /// What an agent is made of.
    fn settings(&self) -> (Options, Connections) {
        let root = self.folder.path();
        let configuration = KubeletConfiguration {
            port: 0,
            healthz_port: 0,
            cgroups_per_qos: false,
            pod_logs_dir: root.join("logs"),
            static_pod_path: Some(root.join("manifests")),
            // How full the disk is here says nothing of the agent.
            eviction_hard: [("memory.available".to_owned(), self.least_memory.to_owned())].into(),
            merge_default_eviction_settings: false,
            fail_cgroup_v1: false,
            fail_swap_on: false,
            ..KubeletConfiguration::default()
        };
        let options = Options {
            configuration,
            node_name: "n".to_owned(),
            node_ips: Vec::new(),
            node_labels: [("disk".to_owned(), "fast".to_owned())].into(),
            root_dir: root.join("root"),
            cert_dir: root.join("pki"),
            container_log_links: root.join("links"),
            volume_rights: crate::volumes::Rights::Ordinary,
            kernel: None,
            external_cloud_provider: false,
            credential_provider_config: None,
            garbage: Policy::default(),
            kubelet_version: "v1.36.3".to_owned(),
            unmet_guarantees: self.unmet_guarantees.clone(),
        };
        let clients = Clients::connect(self.server.config(), clients::Options::default()).unwrap();
        let runtime = Arc::new(self.runtime.clone());
        let connections = Connections {
            clients: Some(clients),
            client_certificate: self.client_certificate.clone(),
            runtime: runtime.clone(),
            images: runtime,
            runtime_metrics: crate::runtime::Metrics::new(),
            event_metrics: steersman_client::events::Metrics::new(),
        };
        (options, connections)
    }

    async fn stop_agent(&mut self) {
        let (stop, mut running) = self.running.take().expect("the agent must run");
        stop.cancel();
        let ended = tokio::time::timeout(SOON, running.join_next()).await.expect("the agent must end");
        ended.expect("there is one agent").unwrap().unwrap();
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.server.client(), "default")
    }

    async fn create(&self, name: &str, annotations: Value) {
        self.create_with(name, annotations, json!({})).await;
    }

    /// A pod whose spec has more members, or other ones.
    async fn create_with(&self, name: &str, annotations: Value, spec: Value) {
        let mut pod = json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "nodeName": "n",
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false,
                "restartPolicy": "OnFailure",
                "containers": [{"name": "app", "image": "busybox:1.36"}],
            },
        });
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    async fn phase(&self, name: &str, wanted: &str) -> Pod {
        self.pod_until(name, wanted, |pod| {
            pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(wanted)
        })
        .await
    }

    async fn pod_until(&self, name: &str, what: &str, is_so: impl Fn(&Pod) -> bool) -> Pod {
        let wait = async {
            loop {
                let pod = self.pods().get(name).await.unwrap();
                if is_so(&pod) {
                    return pod;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(SOON, wait).await {
            Ok(pod) => pod,
            Err(_) => {
                let pod = self.pods().get(name).await.unwrap();
                panic!("{name} is not {what}: {}", serde_json::to_string_pretty(&pod.status).unwrap())
            }
        }
    }

    async fn gone(&self, name: &str) {
        let wait = async {
            while self.pods().get_opt(name).await.unwrap().is_some() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(SOON, wait).await.unwrap_or_else(|_| panic!("{name} is still there"));
    }

    async fn node_until(&self, what: &str, is_so: impl Fn(&Node) -> bool) -> Node {
        let nodes: Api<Node> = Api::all(self.server.client());
        let wait = async {
            loop {
                match nodes.get_opt("n").await.unwrap() {
                    Some(node) if is_so(&node) => return node,
                    _ => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        tokio::time::timeout(SOON, wait).await.unwrap_or_else(|_| panic!("the node is not {what}"))
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn container_id(pod: &Pod) -> String {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.and_then(|statuses| statuses[0].container_id.clone()).expect("the container must have an id")
}

#[tokio::test]
async fn a_node_registers_and_is_ready_and_has_its_lease() {
    let mut rig = Rig::start().await;
    let node = rig.node_until("ready", is_ready).await;
    let labels = node.metadata.labels.unwrap();
    assert_eq!(labels["disk"], "fast");
    assert_eq!(labels["kubernetes.io/hostname"], "n");
    let leases: Api<Lease> = Api::namespaced(rig.server.client(), "kube-node-lease");
    let wait = async {
        while leases.get_opt("n").await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.expect("there must be a lease");
    rig.stop_agent().await;
}

/// The calls hang for longer than anything is waited for here.
#[tokio::test]
async fn a_call_that_hangs_holds_up_its_own_pod_alone() {
    let mut rig = Rig::start().await;
    rig.node_until("ready", is_ready).await;
    rig.create("runs", json!({})).await;
    rig.phase("runs", "Running").await;
    rig.create("ends-never", json!({})).await;
    rig.phase("ends-never", "Running").await;
    for (pod, operation) in [
        ("starts-never", Operation::RunPodSandbox),
        ("is-never-made", Operation::CreateContainer),
        ("ends-never", Operation::StopContainer),
        ("ends-never", Operation::PodSandboxStatus),
    ] {
        rig.runtime.inject_for(pod, operation, u32::MAX, Fault::Hangs);
    }
    rig.create("starts-never", json!({})).await;
    rig.create("is-never-made", json!({})).await;
    rig.pods().delete("ends-never", &DeleteParams::default()).await.unwrap();
    let hangs = async {
        let all = [Operation::RunPodSandbox, Operation::CreateContainer, Operation::StopContainer];
        while !all.iter().all(|operation| {
            let hung = ["starts-never", "is-never-made", "ends-never"];
            rig.runtime.calls().iter().any(|call| {
                call.operation == *operation
                    && call.targets.iter().any(|target| hung.contains(&target.as_str()))
            })
        }) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, hangs).await.expect("all must hang");

    for name in ["one", "two", "three"] {
        rig.create(name, json!({})).await;
    }
    for name in ["one", "two", "three"] {
        rig.phase(name, "Running").await;
    }
    rig.pods().delete("runs", &DeleteParams::default()).await.unwrap();
    rig.gone("runs").await;
    rig.node_until("ready still", is_ready).await;
    assert!(rig.pods().get("ends-never").await.unwrap().metadata.deletion_timestamp.is_some());
    rig.stop_agent().await;
}

#[tokio::test]
async fn the_runtimes_cgroup_driver_goes_before_the_configurations() {
    let rig = Rig::new().await;
    let mut agent = rig.agent();
    assert_eq!(agent.options.configuration.cgroup_driver, CgroupDriver::Cgroupfs);
    let linux = Some(v1::LinuxRuntimeConfiguration { cgroup_driver: v1::CgroupDriver::Systemd.into() });
    rig.runtime.set_runtime_config(v1::RuntimeConfigResponse { linux });
    agent.meet_runtime().await.unwrap();
    assert_eq!(agent.options.configuration.cgroup_driver, CgroupDriver::Systemd);
}

#[tokio::test]
async fn a_runtime_whose_cgroup_driver_is_unknown_ends_the_start() {
    let mut rig = Rig::new().await;
    let linux = Some(v1::LinuxRuntimeConfiguration { cgroup_driver: 7 });
    rig.runtime.set_runtime_config(v1::RuntimeConfigResponse { linux });
    rig.start_agent();
    let (_, mut running) = rig.running.take().unwrap();
    let ended = tokio::time::timeout(SOON, running.join_next()).await.expect("the agent must end");
    assert!(matches!(ended, Some(Ok(Err(Error::UnknownCgroupDriver(7))))), "{ended:?}");
}

#[tokio::test]
async fn more_reserved_than_there_is_ends_the_start() {
    let rig = Rig::new().await;
    let mut agent = rig.agent();
    agent.options.configuration.system_reserved = [("cpu".to_owned(), "1M".parse().unwrap())].into();
    let refused = agent.assemble("simulated").err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.starts_with("invalid Node Allocatable configuration. Resource \"cpu\" has"), "{refused}");
}

#[tokio::test]
async fn the_node_is_read_anew_before_its_labels_keep_a_pod_away() {
    let mut rig = Rig::start().await;
    rig.node_until("ready", is_ready).await;
    let recording = rig.server.record();
    rig.create_with("astray", json!({}), json!({"nodeSelector": {"disk": "slow"}})).await;
    let refused = rig.phase("astray", "Failed").await;
    assert_eq!(refused.status.unwrap().reason.as_deref(), Some("NodeAffinity"));
    assert!(recording.count(&Calls::to("nodes").verb(Verb::Get)) > 0);
    rig.stop_agent().await;
}

#[tokio::test]
async fn pods_run_and_end_and_go() {
    let mut rig = Rig::start().await;
    rig.create("stays", json!({})).await;
    rig.create("ends", json!({"simulated.steersman.io/exit-after": "200ms"})).await;
    let running = rig.phase("stays", "Running").await;
    let status = running.status.unwrap();
    let node = rig.node_until("there", |_| true).await;
    let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
    let internal = addresses.into_iter().find(|address| address.type_ == "InternalIP");
    assert_eq!(status.host_ip, internal.map(|address| address.address), "a pod tells its node's address");
    assert!(status.pod_ip.is_some_and(|ip| ip.starts_with("10.88.")), "a pod has an address of its own");
    rig.phase("ends", "Succeeded").await;
    rig.pods().delete("stays", &DeleteParams::default()).await.unwrap();
    rig.pods().delete("ends", &DeleteParams::default()).await.unwrap();
    rig.gone("stays").await;
    rig.gone("ends").await;
    rig.stop_agent().await;
}

#[tokio::test]
async fn the_agent_listens_to_what_the_runtime_tells_of_its_containers() {
    let mut rig = Rig::start().await;
    let listens = async {
        let opened = |rig: &Rig| {
            rig.runtime.calls().iter().any(|call| call.operation == Operation::GetContainerEvents)
        };
        while !opened(&rig) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, listens).await.expect("the runtime's events must be asked for");
    rig.stop_agent().await;
}

#[tokio::test]
async fn a_pod_past_its_deadline_has_failed_though_its_containers_end_well() {
    let mut rig = Rig::start().await;
    let ends_well = json!({"simulated.steersman.io/stop-code": "0"});
    rig.create_with("slow", ends_well, json!({"activeDeadlineSeconds": 1, "restartPolicy": "Never"})).await;
    let ended = rig
        .pod_until("slow", "at an end", |pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            matches!(phase, Some("Failed" | "Succeeded"))
        })
        .await
        .status
        .unwrap();
    let containers = ended.container_statuses.unwrap();
    let exited = containers[0].state.as_ref().and_then(|state| state.terminated.as_ref());
    assert_eq!(exited.map(|exited| exited.exit_code), Some(0), "{containers:?}");
    assert_eq!(
        (ended.phase.as_deref(), ended.reason.as_deref(), ended.message.as_deref()),
        (
            Some("Failed"),
            Some("DeadlineExceeded"),
            Some("Pod was active on the node longer than the specified deadline")
        )
    );
    rig.stop_agent().await;
}

#[tokio::test]
async fn containers_run_on_while_the_agent_is_away_and_no_result_is_lost() {
    let mut rig = Rig::start().await;
    rig.create("stays", json!({})).await;
    rig.create("ends", json!({"simulated.steersman.io/exit-after": "1500ms"})).await;
    let before = container_id(&rig.phase("stays", "Running").await);
    rig.phase("ends", "Running").await;
    rig.stop_agent().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    rig.start_agent();
    rig.phase("ends", "Succeeded").await;
    let after = rig.phase("stays", "Running").await;
    assert_eq!(container_id(&after), before, "the container must be the same");
    assert_eq!(after.status.unwrap().container_statuses.unwrap()[0].restart_count, 0);
    rig.stop_agent().await;
}

#[tokio::test]
async fn a_node_that_runs_short_ends_no_pod_that_runs_when_its_agent_comes_back() {
    let mut rig = Rig::start().await;
    rig.create("stays", json!({})).await;
    let before = container_id(&rig.phase("stays", "Running").await);
    rig.stop_agent().await;
    rig.least_memory = "99%";
    rig.start_agent();
    rig.node_until("short of memory", |node| {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|told| told.type_ == "MemoryPressure" && told.status == "True")
    })
    .await;
    // Those that come soon may count as having been there.
    let refused = async {
        for number in 0.. {
            let name = format!("new-{number}");
            rig.create(&name, json!({})).await;
            let begun = |pod: &Pod| {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                matches!(phase, Some("Running" | "Failed"))
            };
            let status = rig.pod_until(&name, "begun or refused", begun).await.status.unwrap();
            if status.phase.as_deref() == Some("Failed") {
                return status.reason;
            }
        }
        None
    };
    let refused = tokio::time::timeout(SOON, refused).await.expect("new pods must be refused");
    assert_eq!(refused.as_deref(), Some("Evicted"));
    let after = rig.pods().get("stays").await.unwrap();
    assert_eq!(after.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(container_id(&after), before);
    rig.stop_agent().await;
}

#[tokio::test]
async fn a_static_pod_runs_and_shows_on_the_api_server() {
    let mut rig = Rig::start().await;
    rig.node_until("ready", is_ready).await;
    let manifests = rig.folder.path().join("manifests");
    std::fs::create_dir_all(&manifests).unwrap();
    let manifest = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: default}, \
                    spec: {containers: [{name: app, image: 'busybox:1.36'}]}}";
    std::fs::write(manifests.join("web.yaml"), manifest).unwrap();
    let mirrored = async {
        while rig.pods().get_opt("web-n").await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, mirrored).await.expect("the static pod must have a mirror");
    rig.phase("web-n", "Running").await;
    std::fs::remove_file(manifests.join("web.yaml")).unwrap();
    rig.gone("web-n").await;
    rig.stop_agent().await;
}

#[tokio::test]
async fn containers_of_pods_that_nobody_knows_are_ended() {
    let mut rig = Rig::start().await;
    rig.create("stray", json!({})).await;
    rig.phase("stray", "Running").await;
    rig.stop_agent().await;
    rig.pods().delete("stray", &DeleteParams::default().grace_period(0)).await.unwrap();
    rig.gone("stray").await;
    rig.start_agent();
    let ended = async {
        loop {
            let all = rig.runtime.list_containers(&v1::ContainerFilter::default()).await.unwrap();
            let running = i32::from(v1::ContainerState::ContainerRunning);
            if !all.iter().any(|container| container.state == running) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, ended).await.expect("what nobody knows must be ended");
    rig.stop_agent().await;
}

/// What the pod's status tells of its container's processor time and of its resize.
fn sized(pod: &Pod) -> Value {
    let status = pod.status.clone().unwrap_or_default();
    let container = &status.container_statuses.unwrap_or_default()[0];
    let resources = serde_json::to_value(&container.resources).unwrap();
    let allocated = serde_json::to_value(&container.allocated_resources).unwrap();
    let conditions = status.conditions.unwrap_or_default().into_iter();
    let of_resize = conditions.filter(|told| told.type_.starts_with("PodResize"));
    let told: Vec<_> =
        of_resize.map(|told| json!([told.type_, told.reason, told.observed_generation])).collect();
    json!([resources["requests"]["cpu"], allocated["cpu"], told])
}

#[tokio::test]
async fn a_pod_is_resized_if_there_is_room_and_waits_for_it_if_not() {
    let mut rig = Rig::start().await;
    let node = rig.node_until("ready", is_ready).await;
    let all = node.status.and_then(|status| status.allocatable).unwrap()["cpu"].0.clone();
    let resources = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    for (name, cpu) in [("grows", "100m"), ("other", "150m")] {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {
                "nodeName": "n",
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false,
                "containers": [{"name": "app", "image": "busybox:1.36", "resources": resources(cpu)}],
            },
        });
        rig.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    rig.phase("other", "Running").await;
    let before = rig.phase("grows", "Running").await;
    assert_eq!(sized(&before), json!(["100m", "100m", []]));

    let resize = async |cpu: &str| {
        let change = json!({"spec": {"containers": [{"name": "app", "resources": resources(cpu)}]}});
        let patch = Patch::Strategic(change);
        rig.pods().patch_subresource("resize", "grows", &PatchParams::default(), &patch).await.unwrap()
    };
    resize("200m").await;
    let done = json!(["200m", "200m", []]);
    let after = rig.pod_until("grows", "resized", |pod| sized(pod) == done).await;
    assert_eq!(container_id(&after), container_id(&before));
    let wanted: Pod = resize(&all).await;
    let waits = |pod: &Pod| {
        let told = json!(["PodResizePending", "Deferred", wanted.metadata.generation]);
        sized(pod) == json!(["200m", "200m", [told]])
    };
    let waiting = rig.pod_until("grows", "waiting", waits).await;
    let conditions = waiting.status.unwrap().conditions.unwrap();
    let pending = conditions.iter().find(|told| told.type_ == "PodResizePending").unwrap();
    let milli = all.parse::<steersman_api::Quantity>().unwrap().milli_value();
    let message =
        format!("Node didn't have enough resource: cpu, requested: {milli}, used: 150, capacity: {milli}");
    assert_eq!(pending.message.as_ref(), Some(&message));

    // What it has is on disk: nobody takes what it wants for what it has.
    rig.stop_agent().await;
    rig.start_agent();
    rig.create("new", json!({})).await;
    rig.phase("new", "Running").await;
    rig.pod_until("grows", "still waiting", waits).await;
    rig.pods().delete("other", &DeleteParams::default()).await.unwrap();
    rig.gone("other").await;
    let done = json!([all, all, []]);
    rig.pod_until("grows", "resized at last", |pod| sized(pod) == done).await;
    rig.stop_agent().await;
}
