//! Registration and status against the in-memory server, under paused time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use parking_lot::Mutex;
use steersman_api::{GroupVersionResource, ObjectKey};
use steersman_apiserver::{Calls, Failure, Recording, TestServer, Verb};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::events::testing::Kept;
use crate::machine::Machine;
use crate::node_info::NodeInfo;
use crate::node_status::pressure::Pressure;
use crate::node_status::{LiveNode, Metrics, NodeStatus, Parts};
use crate::runtime::Operation;
use crate::runtime::simulated::{Fault, SimulatedConfig, SimulatedRuntime};

/// A server, a machine of files, a node.
struct Bench {
    server: TestServer,
    nodes: Api<Node>,
    recording: Recording,
    runtime: SimulatedRuntime,
    state: RuntimeState,
    /// What is wrong with the disk.
    unwell: Arc<Mutex<Option<String>>>,
    inventory: Inventory,
    live: LiveNode,
    events: Arc<Kept>,
    metrics: Metrics,
    status: NodeStatus,
    root: tempfile::TempDir,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// A machine that has so much memory left, of 1 GiB.
fn write_memory(root: &Path, mebibytes: u64) {
    let files = [
        ("proc/meminfo", format!("MemTotal: {} kB\nMemFree: {} kB\n", 1 << 20, mebibytes << 10)),
        ("sys/fs/cgroup/cgroup.controllers", "memory".to_owned()),
        ("sys/fs/cgroup/memory.stat", "inactive_file 0\n".to_owned()),
    ];
    for (path, text) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

impl Bench {
    /// Not running yet, with a runtime that is well.
    async fn new(settings: Settings) -> Self {
        let server = TestServer::start().await;
        let root = tempfile::tempdir().unwrap();
        write_memory(root.path(), 512);
        let runtime = SimulatedRuntime::new(SimulatedConfig::default());
        let ((state, inventory), live) = (well(), LiveNode::new(NAME));
        let unwell = Arc::<Mutex<Option<String>>>::default();
        let asked = unwell.clone();
        state.add_health_check("disk", Box::new(move || asked.lock().clone().map_or(Ok(()), Err)));
        let events = Arc::new(Kept::default());
        let metrics = Metrics::new(Timestamp::now());
        let status = NodeStatus::new(Parts {
            settings,
            machine: Machine::at(root.path()),
            facts: facts(),
            root_dir: root.path().to_owned(),
            runtime: Arc::new(runtime.clone()),
            runtime_state: state.clone(),
            inventory: inventory.clone(),
            live_node: live.clone(),
            events: events.clone(),
            metrics: metrics.clone(),
        });
        let nodes = Api::all(server.in_memory_client());
        let recording = server.record();
        let (stop, tasks) = (CancellationToken::new(), JoinSet::new());
        Self {
            server,
            nodes,
            recording,
            runtime,
            state,
            unwell,
            inventory,
            live,
            events,
            metrics,
            status,
            root,
            stop,
            tasks,
        }
    }

    fn run(&mut self) {
        let (status, client, stop) = (self.status.clone(), self.server.in_memory_client(), self.stop.clone());
        self.tasks.spawn(async move { Box::pin(status.run(client, stop)).await });
        let (live, client, stop) = (self.live.clone(), self.server.in_memory_client(), self.stop.clone());
        self.tasks.spawn(async move { Box::pin(live.run(client, stop)).await });
    }

    /// Running for a second.
    async fn started(settings: Settings) -> Self {
        let mut bench = Self::new(settings).await;
        bench.run();
        bench.wait(1).await;
        bench
    }

    /// Keeps the runtime well, and lets that much time go by.
    async fn wait(&self, seconds: u64) {
        for _ in 0..seconds {
            if self.state.runtime_errors().is_empty() {
                self.state.observe(&well_status(), Instant::now());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    fn stored(&self) -> Option<Value> {
        let nodes = GroupVersionResource::new("", "v1", "nodes");
        self.server.peek(&nodes, &ObjectKey::cluster(NAME))
    }

    fn condition(&self, kind: &str) -> Value {
        let stored = self.stored().unwrap();
        let conditions = stored["status"]["conditions"].as_array().unwrap();
        conditions.iter().find(|condition| condition["type"] == kind).unwrap().clone()
    }

    fn patches(&self) -> Vec<Value> {
        let calls = Calls::to("nodes").verb(Verb::Patch).subresource("status");
        let patches = self.recording.matching(&calls).into_iter();
        patches.map(|patch| serde_json::from_slice(&patch.body).unwrap()).collect()
    }

    /// How long it takes until the status is written again.
    async fn seconds_until_patch(&self) -> u64 {
        let before = self.patches().len();
        for seconds in 1..1000 {
            self.wait(1).await;
            if self.patches().len() > before {
                return seconds;
            }
        }
        panic!("the status must be written");
    }

    async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_registers_itself_ready_within_a_second() {
    let mut settings = settings();
    settings.register_with_taints = read(json!([{ "key": "k", "effect": "NoSchedule" }]));
    let bench = Bench::started(settings).await;
    let node = bench.stored().unwrap();
    assert_eq!(node["spec"]["taints"][0]["key"], "k");
    assert_eq!(node["status"]["capacity"]["memory"], "8Gi");
    assert_eq!(node["status"]["nodeInfo"]["containerRuntimeVersion"], "containerd://1.6.20");
    assert_eq!(node["status"]["addresses"][0], json!({ "type": "InternalIP", "address": "192.0.2.10" }));
    let kinds: Vec<_> =
        node["status"]["conditions"].as_array().unwrap().iter().map(|one| one["type"].clone()).collect();
    assert_eq!(kinds, ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]);
    assert_eq!(bench.condition("Ready")["status"], "True");
    assert_eq!(
        bench.events.reasons(),
        ["Starting", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"]
    );
    assert_eq!(bench.events.all()[0].message, "Starting kubelet.");
    assert_eq!(bench.live.host_ips(), ["192.0.2.10"]);
    let registry = prometheus::Registry::new();
    bench.metrics.register(&registry).unwrap();
    let families = registry.gather();
    let names: Vec<_> = families.iter().map(prometheus::proto::MetricFamily::name).collect();
    assert_eq!(
        names,
        [
            "kubelet_node_name",
            "kubelet_node_startup_duration_seconds",
            "kubelet_node_startup_post_registration_duration_seconds",
            "kubelet_node_startup_pre_kubelet_duration_seconds",
            "kubelet_node_startup_pre_registration_duration_seconds",
            "kubelet_node_startup_registration_duration_seconds",
        ]
    );
    assert_eq!(families[0].get_metric()[0].get_label()[0].value(), NAME);
    assert!(families[1].get_metric()[0].get_gauge().get_value() > 1e6, "since the machine was started");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_when_something_changes_else_every_five_minutes() {
    let bench = Bench::started(settings()).await;
    bench.wait(120).await;
    let first = bench.patches().len();
    assert!(first <= 1, "after the registration nothing has changed: {:?}", bench.patches());
    // The first wait is between 2.5 and 7.5 minutes, each further one is 5 minutes and until the status is looked at.
    assert!((29..=350).contains(&bench.seconds_until_patch().await));
    bench.recording.clear();
    for _ in 0..3 {
        let seconds = bench.seconds_until_patch().await;
        assert!((299..=312).contains(&seconds), "{seconds}");
    }
    let beats = bench.patches();
    assert_eq!(beats.len(), 3);
    for beat in beats {
        // The machine's clock may not have gone on by a second.
        let told = beat["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let only_time = |one: &Value| one.as_object().unwrap().keys().eq(["lastHeartbeatTime", "type"]);
        assert!(told.iter().all(only_time), "{beat}");
        assert_eq!(beat.as_object().unwrap().len(), 1);
    }
    bench.recording.clear();
    let image = v1::Image { id: "i".to_owned(), size: 7, ..v1::Image::default() };
    bench.inventory.change(|known| known.images = vec![image]);
    bench.wait(11).await;
    assert_eq!(bench.stored().unwrap()["status"]["images"][0]["sizeBytes"], 7);
    assert_eq!(bench.patches().len(), 1);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn pressures_and_readiness_are_told_and_said_once_they_are_written() {
    let bench = Bench::started(settings()).await;
    bench.wait(10).await;
    let before = bench.events.reasons().len();
    write_memory(bench.root.path(), 99);
    bench.server.faults().fail(3, Calls::to("nodes").verb(Verb::Patch), Failure::InternalError);
    bench.wait(11).await;
    assert_eq!(bench.condition("MemoryPressure")["reason"], "KubeletHasInsufficientMemory");
    assert_eq!(
        bench.events.reasons()[before..],
        ["NodeHasInsufficientMemory"],
        "said once, though tried four times"
    );
    assert_eq!(bench.status.pressures(), [Pressure::Memory].into());
    assert_eq!(bench.condition("Ready")["status"], "True", "a node under pressure is ready");

    *bench.unwell.lock() = Some("no disk".to_owned());
    bench.wait(11).await;
    assert_eq!(bench.condition("Ready")["message"], "disk is not healthy: no disk");
    *bench.unwell.lock() = None;
    bench.wait(11).await;
    assert_eq!(bench.events.reasons()[before + 1..], ["NodeNotReady", "NodeReady"]);
    write_memory(bench.root.path(), 512);
    bench.wait(200).await;
    assert_eq!(bench.condition("MemoryPressure")["status"], "True", "it was seen lately");
    bench.wait(120).await;
    assert_eq!(bench.condition("MemoryPressure")["status"], "False");
    bench.end().await;
}

/// A machine on which the node's folder has these mounts.
fn write_mounts(root: &Path, mounts: &[&str]) {
    let lines = mounts.iter().map(|mount| {
        let path = root.join(mount);
        format!("30 29 8:1 / {} rw,relatime - ext4 /dev/sdb rw\n", path.display())
    });
    let folder = root.join("proc/self");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("mountinfo"), lines.collect::<String>()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn volumes_of_the_kubelet_before_are_told_to_be_in_use_while_they_are_mounted() {
    let mut bench = Bench::new(settings()).await;
    let before = node(json!({
        "metadata": { "name": NAME },
        "status": { "volumesInUse": ["kubernetes.io/csi/d^1", "kubernetes.io/iscsi/x"] },
    }));
    bench.nodes.create(&PostParams::default(), &before).await.unwrap();
    write_mounts(bench.root.path(), &["pods/u-1/volumes/kubernetes.io~csi/pvc-1/mount", "pods/u-1/other"]);
    bench.run();
    bench.wait(11).await;
    let in_use = |bench: &Bench| bench.stored().unwrap()["status"]["volumesInUse"].clone();
    assert_eq!(in_use(&bench), json!(["kubernetes.io/csi/d^1"]));
    write_mounts(bench.root.path(), &["plugins/kubernetes.io/csi/d/0af3/globalmount"]);
    bench.wait(11).await;
    assert_eq!(in_use(&bench), json!(["kubernetes.io/csi/d^1"]));
    write_mounts(bench.root.path(), &[]);
    bench.wait(11).await;
    assert_eq!(in_use(&bench), Value::Null);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_becomes_ready_after_its_start_is_told_of_at_once() {
    let mut bench = Bench::new(settings()).await;
    *bench.unwell.lock() = Some("not yet".to_owned());
    bench.run();
    bench.wait(3).await;
    assert_eq!(bench.condition("Ready")["status"], "False");
    *bench.unwell.lock() = None;
    bench.wait(1).await;
    assert_eq!(bench.condition("Ready")["status"], "True");
    assert!(bench.events.reasons().contains(&"NodeReady"));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_there_is_taken_over_and_a_new_boot_is_said_once() {
    let mut bench = Bench::new(settings()).await;
    let before = node(json!({
        "metadata": { "name": NAME, "labels": { "theirs": "x" } },
        "spec": { "podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"], "unschedulable": true },
        "status": {
            "capacity": { "example.com/gpu": "2" }, "allocatable": { "example.com/gpu": "2" },
            "addresses": [
                { "type": "InternalIP", "address": "192.0.2.9" }, { "type": "InternalIP", "address": "fd00::9" },
                { "type": "Hostname", "address": "n" },
            ],
            "nodeInfo": {
                "bootID": "b-0", "architecture": "", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "",
                "osImage": "", "systemUUID": "",
            },
        },
    }));
    bench.nodes.create(&PostParams::default(), &before).await.unwrap();
    bench.run();
    bench.wait(25).await;
    let node = bench.stored().unwrap();
    assert_eq!(node["metadata"]["labels"]["theirs"], "x");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/os"], "linux");
    assert_eq!(node["status"]["capacity"]["example.com/gpu"], "0");
    assert_eq!(node["status"]["nodeInfo"]["bootID"], "b-1");
    let addresses = json!([
        { "type": "InternalIP", "address": "192.0.2.10" }, { "type": "Hostname", "address": "192.0.2.10" },
    ]);
    assert_eq!(node["status"]["addresses"], addresses, "replaced as a whole");
    let reasons = bench.events.reasons();
    assert_eq!(reasons.iter().filter(|reason| **reason == "Rebooted").count(), 1, "{reasons:?}");
    assert!(reasons.contains(&"NodeNotSchedulable"));
    let told =
        bench.runtime.calls().into_iter().filter(|call| call.operation == Operation::UpdateRuntimeConfig);
    assert_eq!(told.count(), 1, "the runtime knows the pods' range");
    let patch = json!({ "spec": { "unschedulable": null } });
    bench.nodes.patch(NAME, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    bench.wait(11).await;
    assert_eq!(bench.events.reasons().last(), Some(&"NodeSchedulable"));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_does_not_take_the_range_of_pods_is_told_again_and_holds_up_nothing() {
    let mut bench = Bench::new(settings()).await;
    bench.runtime.inject(Operation::UpdateRuntimeConfig, 1, Fault::Hangs);
    let ranged = node(json!({ "metadata": { "name": NAME }, "spec": { "podCIDRs": ["10.1.0.0/24"] } }));
    bench.nodes.create(&PostParams::default(), &ranged).await.unwrap();
    bench.run();
    bench.wait(12).await;
    assert_eq!(bench.condition("Ready")["status"], "True");
    bench.wait(12).await;
    let told =
        bench.runtime.calls().into_iter().filter(|call| call.operation == Operation::UpdateRuntimeConfig);
    assert_eq!(told.count(), 2);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_is_refused_is_tried_until_it_succeeds() {
    let mut bench = Bench::new(settings()).await;
    bench.server.faults().fail(5, Calls::to("nodes").verb(Verb::Create), Failure::InternalError);
    bench.run();
    bench.wait(2).await;
    assert_eq!(bench.stored(), None);
    assert!(bench.live.any_way().is_some(), "pods can be admitted meanwhile");
    bench.wait(10).await;
    assert_eq!(bench.condition("Ready")["status"], "True");
    assert_eq!(bench.recording.count(&Calls::to("nodes").verb(Verb::Create)), 6);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn who_may_not_make_nodes_takes_the_one_that_is_there() {
    let mut bench = Bench::new(settings()).await;
    let there = node(json!({ "metadata": { "name": NAME } }));
    bench.nodes.create(&PostParams::default(), &there).await.unwrap();
    let forbidden = steersman_api::Status::failure(403, "Forbidden", "nodes is forbidden");
    let create = Calls::to("nodes").verb(Verb::Create);
    bench.server.faults().fail(usize::MAX, create, Failure::Status(Box::new(forbidden)));
    bench.run();
    bench.wait(2).await;
    assert_eq!(bench.condition("Ready")["status"], "True");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_deletes_is_registered_again() {
    let bench = Bench::started(settings()).await;
    bench.wait(10).await;
    let before = bench.stored().unwrap();
    bench.nodes.delete(NAME, &DeleteParams::default()).await.unwrap();
    bench.wait(12).await;
    let after = bench.stored().unwrap();
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(bench.condition("Ready")["status"], "True");
    assert_eq!(bench.live.node().unwrap().metadata.uid.as_deref(), after["metadata"]["uid"].as_str());
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_register_waits_for_somebody_who_does() {
    let mut settings = settings();
    settings.register_node = false;
    let bench = Bench::started(settings).await;
    bench.wait(20).await;
    assert_eq!((bench.stored(), bench.recording.count(&Calls::to("nodes").verb(Verb::Create))), (None, 0));
    let made = node(json!({ "metadata": { "name": NAME } }));
    bench.nodes.create(&PostParams::default(), &made).await.unwrap();
    bench.wait(12).await;
    assert_eq!(bench.condition("Ready")["status"], "True");
    assert_eq!(bench.stored().unwrap()["metadata"]["labels"]["kubernetes.io/arch"], "amd64");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn that_the_api_server_is_away_says_nothing_about_the_node() {
    let bench = Bench::started(settings()).await;
    bench.wait(10).await;
    bench.recording.clear();
    bench.server.faults().fail(usize::MAX, Calls::all(), Failure::InternalError);
    bench.wait(600).await;
    assert!(!bench.patches().is_empty());
    bench.server.faults().clear();
    bench.wait(61).await;
    for patch in bench.patches() {
        let told = patch["status"]["conditions"].as_array().cloned().unwrap_or_default();
        assert!(told.iter().all(|one| one.get("status").is_none()), "{patch}");
    }
    assert_eq!(bench.condition("Ready")["status"], "True");
    assert!(!bench.events.reasons().contains(&"NodeNotReady"));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_given_up_in_time() {
    let bench = Bench::started(settings()).await;
    bench.wait(10).await;
    bench.server.faults().fail(1, Calls::to("nodes").verb(Verb::Patch), Failure::Hang);
    *bench.unwell.lock() = Some("no disk".to_owned());
    bench.wait(22).await;
    assert_eq!(bench.condition("Ready")["message"], "disk is not healthy: no disk");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_an_api_server_the_node_is_known_to_itself() {
    let mut settings = settings();
    settings.pod_cidr = Some("10.9.0.0/24".to_owned());
    let mut bench = Bench::new(settings).await;
    let (status, stop) = (bench.status.clone(), bench.stop.clone());
    bench.tasks.spawn(async move { Box::pin(status.run_alone(stop)).await });
    bench.wait(30).await;
    assert_eq!(bench.live.node(), None);
    let node = bench.live.any_way().unwrap();
    assert!(crate::node_status::conditions::is_ready(&node));
    assert_eq!(bench.live.allocatable()["pods"].0, "110");
    let told =
        bench.runtime.calls().into_iter().filter(|call| call.operation == Operation::UpdateRuntimeConfig);
    assert_eq!(told.count(), 1);
    assert_eq!((bench.recording.requests().len(), bench.events.reasons()), (0, vec!["Starting"]));
    bench.end().await;
}
