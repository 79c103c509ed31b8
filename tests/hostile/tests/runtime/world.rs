//! A node whose runtime answers what an input says.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use prometheus::Registry;
use prost::Message as _;
use serde_json::{Value, json};
use steersman_apiserver::{Clock, TestServer};
use steersman_client::Clients;
use steersman_node::agent::{Agent, Connections, Options};
use steersman_node::configuration::KubeletConfiguration;
use steersman_node::cri::v1;
use steersman_node::kuberuntime::manager::garbage::Policy;
use steersman_node::runtime::simulated::{Logs, SimulatedConfig, SimulatedRuntime};
use steersman_node::runtime::{Metrics, RuntimeService};
use steersman_node::volumes::Rights;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::answers::Answers;
use crate::cases::Case;
use crate::hostile_runtime::HostileRuntime;
use hostile::protobuf::Message;

/// How long the runtime gives the answers of an input: long enough for logs to be looked at, which comes every ten seconds.
const SHORT: Duration = Duration::from_secs(12);
/// The same, long enough for a collection of garbage, which comes each minute.
const LONG: Duration = Duration::from_secs(70);
/// The node must be well within this once the runtime is.
const PATIENCE: Duration = Duration::from_secs(20 * 60);
/// Files beside the folders of the node.
const PRECIOUS: &[&str] = &[
    "precious",
    "precious.1",
    "precious_folder/file",
    "precious_default_app-id.log",
    "precious_default_left-id.log",
    "precious.log",
];
/// The size of a file that would be rotated if it were a log, in bytes.
const LARGE: u64 = 20 << 20;
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Stands for the folder of the node in inputs.
const ROOT: &str = "$root";

/// A node, its API server and its runtime. Time is tokio's, which is to be paused.
pub(crate) struct World {
    server: TestServer,
    runtime: HostileRuntime,
    folder: TempDir,
    stop: CancellationToken,
    running: JoinSet<Result<(), steersman_node::agent::Error>>,
}

impl World {
    /// A node whose pods run.
    pub(crate) async fn start() -> Self {
        let server = TestServer::builder().clock(Clock::following_tokio()).start().await;
        // The agent's wall clock is the machine's. Back-offs count from the ends of containers: long ago, all are over.
        let wall = Timestamp::now() - SignedDuration::from_hours(24 * 30);
        let simulated = SimulatedRuntime::new(SimulatedConfig {
            logs: Logs::Written,
            wall,
            ..SimulatedConfig::default()
        });
        let (runtime, folder) = (HostileRuntime::over(simulated), tempfile::tempdir().unwrap());
        let (stop, running) = (CancellationToken::new(), JoinSet::new());
        let mut world = Self { server, runtime, folder, stop, running };
        world.put_precious_files();
        world.start_agent();
        world.leave_orphan("gone").await;
        let pods: Api<Pod> = Api::namespaced(world.server.in_memory_client(), "default");
        for pod in [web(), job(), crashing()] {
            pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        }
        world.well().await;
        world
    }

    /// What the runtime truly answers, with names in the place of what is different in each run, and what is made of it by `cases`.
    pub(crate) async fn samples(&self, cases: &[Case]) -> Vec<Vec<u8>> {
        // The agent has not seen it yet.
        self.leave_orphan("lost").await;
        let mut message = Message::decode(&Answers::of(&self.runtime).await.encode_to_vec()).unwrap();
        for (name, value) in self.names().await {
            message.replace(&value, &name);
        }
        let good = Answers::decode(message.encode().as_slice()).unwrap();
        let spoiled = cases.iter().map(|(_, spoil)| {
            let mut answers = good.clone();
            spoil(&mut answers);
            answers
        });
        [good.clone()].into_iter().chain(spoiled).map(|answers| answers.encode_to_vec()).collect()
    }

    /// Has the runtime answer what an input says for a while, and then the truth again.
    ///
    /// # Panics
    /// If the agent ends, or does not get well.
    pub(crate) async fn suffer(&mut self, input: &[u8]) {
        let Some(mut message) = Message::decode(input) else { return };
        for (name, value) in self.names().await {
            message.replace(&name, &value);
        }
        let Ok(answers) = Answers::decode(message.encode().as_slice()) else { return };
        let time = if answers.long { LONG } else { SHORT };
        if answers.restart {
            self.stop_agent().await;
            self.runtime.answer(Some(answers));
            self.start_agent();
        } else {
            self.runtime.answer(Some(answers));
        }
        sleep(time).await;
        self.runtime.answer(None);
        self.well().await;
        assert!(self.running.try_join_next().is_none(), "the agent has ended");
        self.check_precious_files();
    }

    async fn leave_orphan(&self, name: &str) {
        orphan(&self.runtime.simulated, &self.folder.path().join("logs"), name).await;
    }

    fn start_agent(&mut self) {
        let (options, connections) = (options(self.folder.path()), connections(&self.server, &self.runtime));
        let agent = Agent::new(options, connections, Registry::new()).unwrap();
        self.stop = CancellationToken::new();
        self.running.spawn(agent.run(self.stop.clone()));
    }

    async fn stop_agent(&mut self) {
        self.stop.cancel();
        let ended = timeout(PATIENCE, self.running.join_next()).await.expect("the agent must end");
        ended.expect("there is one agent").unwrap().unwrap();
    }

    /// Ends the node.
    pub(crate) async fn stop(mut self) {
        self.stop_agent().await;
    }

    /// Makes files that are none of the node's.
    fn put_precious_files(&self) {
        fs::create_dir(self.folder.path().join("precious_folder")).unwrap();
        for name in PRECIOUS {
            fs::write(self.folder.path().join(name), name).unwrap();
        }
        let large = fs::File::create(self.folder.path().join("large")).unwrap();
        large.set_len(LARGE).unwrap();
    }

    fn check_precious_files(&self) {
        for name in PRECIOUS {
            let found = fs::read_to_string(self.folder.path().join(name));
            assert_eq!(found.as_deref().ok(), Some(*name), "{name} is not the node's to change");
        }
        let large = fs::metadata(self.folder.path().join("large"));
        assert_eq!(
            large.map(|file| file.len()).ok(),
            Some(LARGE),
            "a large file is not the node's to rotate"
        );
    }

    /// Returns once the pod that runs for ever is shown as it is: ready, with the containers that the runtime has.
    async fn well(&self) {
        let pods: Api<Pod> = Api::namespaced(self.server.in_memory_client(), "default");
        let wait = async {
            loop {
                let pod = serde_json::to_value(pods.get("web").await.unwrap()).unwrap();
                if self.shows_the_truth(&pod).await {
                    return;
                }
                sleep(Duration::from_secs(1)).await;
            }
        };
        if timeout(PATIENCE, wait).await.is_err() {
            let pod = serde_json::to_string_pretty(&pods.get("web").await.unwrap().status).unwrap();
            panic!("the pod is not well: {pod}\nthe runtime: {:?}", self.runtime.simulated);
        }
    }

    async fn shows_the_truth(&self, pod: &Value) -> bool {
        let ready = |of: &Value| of["type"] == "Ready" && of["status"] == "True";
        let running = v1::ContainerFilter {
            state: Some(v1::ContainerStateValue { state: v1::ContainerState::ContainerRunning.into() }),
            ..Default::default()
        };
        let running = self.runtime.simulated.list_containers(&running).await.unwrap();
        let is_there = |status: &Value| {
            let shown = status["containerID"].as_str().unwrap_or_default();
            status["ready"] == true && running.iter().any(|there| shown.ends_with(there.id.as_str()))
        };
        let status = &pod["status"];
        status["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(ready))
            && status["containerStatuses"].as_array().is_some_and(|all| all.iter().all(is_there))
    }

    /// What inputs have names for.
    async fn names(&self) -> Vec<(String, String)> {
        let simulated = &self.runtime.simulated;
        let mut names = vec![(ROOT.to_owned(), self.folder.path().to_str().unwrap().to_owned())];
        for sandbox in simulated.list_pod_sandbox(&Default::default()).await.unwrap() {
            let metadata = sandbox.metadata.unwrap();
            names.push((format!("$sandbox-of-{}.{}", metadata.name, metadata.attempt), sandbox.id));
            names.push((format!("$uid-of-{}", metadata.name), metadata.uid));
        }
        for container in simulated.list_containers(&Default::default()).await.unwrap() {
            let (metadata, pod) = (container.metadata.unwrap(), &container.labels["io.kubernetes.pod.name"]);
            names.push((format!("${}.{}-of-{pod}", metadata.name, metadata.attempt), container.id));
        }
        names
    }
}

fn options(root: &Path) -> Options {
    let configuration = KubeletConfiguration {
        enable_server: false,
        address: LOOPBACK,
        healthz_port: 0,
        cgroups_per_qos: false,
        pod_logs_dir: root.join("logs"),
        // How full the disk is here says nothing of the agent.
        eviction_hard: [("memory.available".to_owned(), "1Mi".to_owned())].into(),
        merge_default_eviction_settings: false,
        fail_cgroup_v1: false,
        fail_swap_on: false,
        ..KubeletConfiguration::default()
    };
    Options {
        configuration,
        node_name: "n".to_owned(),
        // An address that is given needs no name service.
        node_ips: vec![LOOPBACK],
        node_labels: Default::default(),
        root_dir: root.join("root"),
        cert_dir: root.join("pki"),
        container_log_links: root.join("links"),
        volume_rights: Rights::Ordinary,
        kernel: None,
        external_cloud_provider: false,
        credential_provider_config: None,
        garbage: Policy::default(),
        kubelet_version: "v1.36.3".to_owned(),
        unmet_guarantees: Vec::new(),
    }
}

fn connections(server: &TestServer, runtime: &HostileRuntime) -> Connections {
    Connections {
        clients: Some(Clients::over(server.in_memory())),
        client_certificate: None,
        runtime: Arc::new(runtime.clone()),
        images: Arc::new(runtime.clone()),
        runtime_metrics: Metrics::new(),
        event_metrics: steersman_client::events::Metrics::new(),
    }
}

fn pod(name: &str, annotations: Value, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false},
    });
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

/// A pod that runs for ever, with all that a pod may have: an init container, a sidecar, probes, hooks and resources.
fn web() -> Value {
    let exec = json!({"exec": {"command": ["true"]}, "periodSeconds": 5});
    pod(
        "web",
        json!({"simulated.steersman.io/exit-after.init": "1s"}),
        json!({
            "initContainers": [
                {"name": "init", "image": "app:1"},
                {"name": "sidecar", "image": "app:1", "restartPolicy": "Always", "startupProbe": exec},
            ],
            "containers": [
                {
                    "name": "app", "image": "app:1", "ports": [{"name": "http", "containerPort": 80}],
                    "livenessProbe": exec, "readinessProbe": exec,
                    "lifecycle": {"preStop": {"exec": {"command": ["true"]}}, "postStart": {"exec": {"command": ["true"]}}},
                    "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}, "limits": {"cpu": "20m", "memory": "16Mi"}},
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                },
                {"name": "helper", "image": "app:2"},
            ],
        }),
    )
}

/// A pod that ends.
fn job() -> Value {
    pod(
        "job",
        json!({"simulated.steersman.io/exit-after": "1s"}),
        json!({"restartPolicy": "Never", "containers": [{"name": "work", "image": "app:1"}]}),
    )
}

/// A pod whose container fails again and again.
fn crashing() -> Value {
    pod(
        "crashing",
        json!({"simulated.steersman.io/exit-after": "20s", "simulated.steersman.io/exit-code": "3"}),
        json!({"containers": [{"name": "fails", "image": "app:1"}]}),
    )
}

/// Makes a container of the pod `name` that nobody knows any more.
async fn orphan(runtime: &SimulatedRuntime, logs: &Path, name: &str) {
    let log_directory = logs.join(format!("default_{name}_{name}"));
    fs::create_dir_all(log_directory.join("left")).unwrap();
    let labels: std::collections::BTreeMap<String, String> = [
        ("io.kubernetes.pod.name", name),
        ("io.kubernetes.pod.namespace", "default"),
        ("io.kubernetes.pod.uid", name),
        ("io.kubernetes.container.name", "left"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let annotations = [
        ("io.kubernetes.container.hash", "1a2b"),
        ("io.kubernetes.container.restartCount", "3"),
        ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
        ("io.kubernetes.container.terminationMessagePolicy", "FallbackToLogsOnError"),
        (
            "io.kubernetes.container.preStopHandler",
            r#"{"httpGet":{"path":"/","port":"http","host":"127.0.0.1"}}"#,
        ),
        ("io.kubernetes.container.ports", r#"[{"name":"http","containerPort":1}]"#),
        ("io.kubernetes.pod.deletionGracePeriod", "3"),
        ("io.kubernetes.pod.terminationGracePeriod", "3"),
    ];
    let metadata = v1::PodSandboxMetadata {
        name: name.into(),
        namespace: "default".into(),
        uid: name.into(),
        attempt: 0,
    };
    let sandbox_config = v1::PodSandboxConfig {
        metadata: Some(metadata),
        labels: labels.clone(),
        log_directory: log_directory.to_str().unwrap().into(),
        ..Default::default()
    };
    let sandbox = runtime.run_pod_sandbox(&sandbox_config, "").await.unwrap();
    runtime.add_image("app:1");
    let config = v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: "left".into(), attempt: 3 }),
        image: Some(v1::ImageSpec { image: "app:1".into(), ..Default::default() }),
        labels,
        annotations: annotations.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        log_path: "left/3.log".into(),
        ..Default::default()
    };
    let id = runtime.create_container(&sandbox, &config, &sandbox_config).await.unwrap();
    runtime.start_container(&id).await.unwrap();
}
