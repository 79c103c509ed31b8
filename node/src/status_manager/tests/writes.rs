//! The manager at work: paused time, a server in memory, requests counted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_api::{GroupVersionResource, ObjectKey};
use steersman_apiserver::{Calls, Failure, Recording, TestServer, Verb};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{containers, ended, read, running};
use crate::pod_config::annotations::{CONFIG_HASH, CONFIG_MIRROR, CONFIG_SOURCE};
use crate::pod_manager::PodManager;
use crate::status_manager::{Metrics, PodDeletionSafety, Pods, StatusManager};

/// The node's pods, and whether their containers may run.
#[derive(Default)]
struct Node {
    pods: Mutex<HashMap<String, Arc<Pod>>>,
    /// Mirrors by the uid of their static pod.
    mirrors: Mutex<HashMap<String, Arc<Pod>>>,
    may_run: AtomicBool,
    /// Done once, while somebody asks for a mirror.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Done once, just before somebody is told that containers are gone.
    at_the_end: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Pods for Node {
    fn by_uid(&self, uid: &str) -> Option<Arc<Pod>> {
        self.pods.lock().get(uid).cloned()
    }
    fn mirror_of(&self, pod: &Pod) -> Option<Arc<Pod>> {
        let meanwhile = self.meanwhile.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        self.mirrors.lock().get(pod.metadata.uid.as_deref()?).cloned()
    }
    fn static_pod_of(&self, uid: &str) -> Option<String> {
        let mirrors = self.mirrors.lock();
        mirrors
            .iter()
            .find(|(_, mirror)| mirror.metadata.uid.as_deref() == Some(uid))
            .map(|(uid, _)| uid.clone())
    }
    fn mirror_uid_of(&self, uid: &str) -> Option<String> {
        self.mirrors.lock().get(uid)?.metadata.uid.clone()
    }
}

impl PodDeletionSafety for Node {
    fn could_have_running_containers(&self, _: &Pod) -> bool {
        let at_the_end = self.at_the_end.lock().take();
        if let Some(at_the_end) = at_the_end {
            at_the_end();
        }
        self.may_run.load(Ordering::Relaxed)
    }
}

/// A server, a node, and its manager.
struct Bench {
    server: TestServer,
    node: Arc<Node>,
    manager: StatusManager,
    metrics: Metrics,
    api: Api<Pod>,
    recording: Recording,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Bench {
    async fn start() -> Self {
        let node = Arc::new(Node::default());
        Self::over(node.clone(), node).await
    }

    /// With these pods in place of the node's.
    async fn over(pods: Arc<dyn Pods>, node: Arc<Node>) -> Self {
        let (server, metrics) = (TestServer::start().await, Metrics::new());
        let manager = StatusManager::new(pods, node.clone(), metrics.clone());
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let (running, client, token) = (manager.clone(), server.in_memory_client(), stop.clone());
        tasks.spawn(async move { Box::pin(running.run(client, token)).await });
        let api = Api::namespaced(server.in_memory_client(), "default");
        let recording = server.record();
        Self { server, node, manager, metrics, api, recording, stop, tasks }
    }

    /// A pod on the server and on the node.
    async fn pod(&self, name: &str, annotations: Value) -> Pod {
        let pod = read(json!({
            "metadata": { "name": name, "namespace": "default", "annotations": annotations },
            "spec": { "nodeName": "n", "containers": containers(&["a"]) },
        }));
        let pod = self.api.create(&PostParams::default(), &pod).await.unwrap();
        self.seen(&pod);
        pod
    }

    fn seen(&self, pod: &Pod) {
        self.node.pods.lock().insert(pod.metadata.uid.clone().unwrap(), Arc::new(pod.clone()));
    }

    fn stored(&self, name: &str) -> Option<Value> {
        self.server.peek(&GroupVersionResource::new("", "v1", "pods"), &ObjectKey::new("default", name))
    }

    fn writes(&self) -> usize {
        let patches = self.recording.count(&Calls::to("pods").verb(Verb::Patch));
        patches + self.recording.count(&Calls::to("pods").verb(Verb::Delete))
    }

    /// Lets that much time go by.
    async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

fn is_running() -> PodStatus {
    read(json!({
        "phase": "Running",
        "qosClass": "BestEffort",
        "conditions": [{ "type": "Ready", "status": "True" }, { "type": "ContainersReady", "status": "True" }],
        "containerStatuses": [running("a")],
    }))
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_once_and_the_same_one_never_again() {
    let bench = Bench::start().await;
    let pod = bench.pod("p", json!({})).await;
    let set = bench.manager.set(&pod, is_running());
    assert!(set.changed);
    assert!(set.status.start_time.is_some());
    bench.wait(1).await;
    let stored = bench.stored("p").unwrap();
    assert_eq!(stored["status"]["phase"], "Running");
    assert_eq!(stored["status"]["observedGeneration"], stored["metadata"]["generation"]);
    assert_eq!(bench.writes(), 1);
    let patches = bench.recording.matching(&Calls::to("pods").subresource("status"));
    let patch: Value = serde_json::from_slice(&patches[0].body).unwrap();
    assert_eq!(patch["metadata"], json!({ "uid": pod.metadata.uid }));

    bench.seen(&bench.api.get("p").await.unwrap());
    let again = bench.manager.set(&pod, is_running());
    assert!(!again.changed);
    assert_eq!(again.status, set.status, "start and transitions stay where they were");
    bench.wait(100).await;
    assert_eq!(bench.writes(), 1);
    assert!(bench.recording.count(&Calls::to("pods").verb(Verb::Get)) <= 2, "nor is the server asked");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_or_whose_answer_is_lost_goes_out_later() {
    let bench = Bench::start().await;
    let pod = bench.pod("p", json!({})).await;
    let patches = || Calls::to("pods").verb(Verb::Patch);
    bench.server.faults().fail(1, patches(), Failure::InternalError);
    bench.manager.set(&pod, is_running());
    bench.wait(1).await;
    assert_eq!(bench.stored("p").unwrap()["status"]["phase"], "Pending");
    bench.wait(10).await;
    assert_eq!(bench.stored("p").unwrap()["status"]["phase"], "Running");

    bench.seen(&bench.api.get("p").await.unwrap());
    bench.server.faults().fail(1, patches(), Failure::TimeoutAfterwards);
    bench.manager.set(&pod, PodStatus { message: Some("m".to_owned()), ..is_running() });
    bench.wait(1).await;
    assert_eq!(bench.stored("p").unwrap()["status"]["message"], "m");
    let writes = bench.writes();
    bench.wait(30).await;
    assert_eq!(bench.writes(), writes, "it landed: nothing is left to write");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_holds_up_no_other_pod() {
    let bench = Bench::start().await;
    let (one, other) = (bench.pod("one", json!({})).await, bench.pod("other", json!({})).await);
    bench.server.faults().fail(1, Calls::to("pods").verb(Verb::Patch).name("one"), Failure::Hang);
    bench.manager.set(&one, is_running());
    bench.wait(1).await;
    bench.manager.set(&other, is_running());
    bench.wait(1).await;
    assert_eq!(bench.stored("other").unwrap()["status"]["phase"], "Running");
    assert_eq!(bench.stored("one").unwrap()["status"]["phase"], "Pending");
    bench.wait(60).await;
    assert_eq!(bench.stored("one").unwrap()["status"]["phase"], "Running");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_is_deleted_once_nothing_of_it_runs() {
    let bench = Bench::start().await;
    bench.node.may_run.store(true, Ordering::Relaxed);
    let pod = bench.pod("p", json!({})).await;
    bench.manager.set(&pod, is_running());
    bench.wait(1).await;
    bench.api.delete("p", &DeleteParams::default()).await.unwrap();
    let deleted = bench.api.get("p").await.unwrap();
    bench.seen(&deleted);
    bench.recording.clear();
    // While containers may run neither its end is told nor is it deleted.
    bench.manager.set(&deleted, PodStatus { phase: Some("Failed".to_owned()), ..is_running() });
    bench.wait(30).await;
    assert_eq!(bench.stored("p").unwrap()["status"]["phase"], "Running");

    bench.node.may_run.store(false, Ordering::Relaxed);
    bench.manager.terminate(&deleted);
    bench.wait(1).await;
    assert_eq!(bench.stored("p"), None);
    let deletes = bench.recording.matching(&Calls::to("pods").verb(Verb::Delete));
    let options: Value = serde_json::from_slice(&deletes[0].body).unwrap();
    assert_eq!(options["gracePeriodSeconds"], 0);
    assert_eq!(options["preconditions"], json!({ "uid": pod.metadata.uid }));
    assert_eq!(bench.manager.get(pod.metadata.uid.as_deref().unwrap()), None);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_fails_is_tried_again() {
    let bench = Bench::start().await;
    let pod = bench.pod("p", json!({})).await;
    bench.api.delete("p", &DeleteParams::default()).await.unwrap();
    let deleted = bench.api.get("p").await.unwrap();
    bench.seen(&deleted);
    bench.server.faults().fail(1, Calls::to("pods").verb(Verb::Delete), Failure::InternalError);
    bench.manager.terminate(&deleted);
    bench.wait(1).await;
    // The source tells of what was written.
    bench.seen(&bench.api.get("p").await.unwrap());
    assert_eq!(bench.stored("p").unwrap()["status"]["phase"], "Failed");
    bench.wait(10).await;
    assert_eq!(bench.stored("p"), None);
    drop(pod);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_made_anew_is_left_alone() {
    let bench = Bench::start().await;
    let old = bench.pod("p", json!({})).await;
    bench.api.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    let new = bench.pod("p", json!({})).await;
    let mut deleted = old.clone();
    deleted.metadata.deletion_timestamp = Some(read(json!("2024-01-01T00:00:00Z")));
    bench.recording.clear();
    bench.manager.terminate(&deleted);
    bench.wait(30).await;
    assert_eq!(bench.writes(), 0);
    assert_eq!(bench.stored("p").unwrap()["metadata"]["uid"].as_str(), new.metadata.uid.as_deref());
    assert_eq!(bench.manager.get(old.metadata.uid.as_deref().unwrap()), None);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_overwrote_is_set_right() {
    let bench = Bench::start().await;
    let pod = bench.pod("p", json!({})).await;
    bench.manager.set(&pod, is_running());
    bench.wait(1).await;
    let wrong = json!({ "status": { "phase": "Pending" } });
    let patch = kube::api::Patch::Merge(&wrong);
    bench.api.patch_status("p", &kube::api::PatchParams::default(), &patch).await.unwrap();
    bench.seen(&bench.api.get("p").await.unwrap());
    bench.wait(11).await;
    assert_eq!(bench.stored("p").unwrap()["status"]["phase"], "Running");
    bench.end().await;
}

fn static_pod() -> Pod {
    read(json!({
        "metadata": { "name": "s", "namespace": "default", "uid": "hash",
            "annotations": { CONFIG_SOURCE: "file", CONFIG_HASH: "hash" } },
        "spec": { "nodeName": "n", "containers": containers(&["a"]) },
    }))
}

#[tokio::test(start_paused = true)]
async fn the_last_status_of_a_static_pod_that_was_removed_goes_to_its_mirror_once() {
    let pods = PodManager::new();
    let bench = Bench::over(Arc::new(pods.clone()), Arc::default()).await;
    let mirror = bench.pod("s", json!({ CONFIG_MIRROR: "hash" })).await;
    pods.set(Arc::new(mirror));
    pods.set(Arc::new(static_pod()));
    bench.manager.set(&static_pod(), is_running());
    bench.wait(11).await;
    assert_eq!(bench.stored("s").unwrap()["status"]["phase"], "Running");
    pods.remove(&static_pod());
    let mut ended_well = is_running();
    ended_well.phase = Some("Succeeded".to_owned());
    ended_well.container_statuses = Some(vec![ended("a", 0)]);
    bench.manager.set(&static_pod(), ended_well);
    bench.manager.terminate(&static_pod());
    bench.wait(1).await;
    assert_eq!(bench.stored("s").unwrap()["status"]["phase"], "Succeeded");
    let calls = bench.recording.requests().len();
    bench.wait(30).await;
    assert_eq!(bench.recording.requests().len(), calls, "what was written is not written again");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_static_pods_status_goes_to_its_mirror() {
    let bench = Bench::start().await;
    let static_pod = static_pod();
    bench.seen(&static_pod);
    bench.manager.set(&static_pod, is_running());
    bench.wait(30).await;
    assert_eq!(bench.recording.requests().len(), 0, "without a mirror there is nothing to write to");
    let mirror = bench.pod("s", json!({ CONFIG_MIRROR: "hash" })).await;
    bench.node.mirrors.lock().insert("hash".to_owned(), Arc::new(mirror.clone()));
    bench.wait(11).await;
    assert_eq!(bench.stored("s").unwrap()["status"]["phase"], "Running");
    assert!(
        bench.manager.get(mirror.metadata.uid.as_deref().unwrap()).is_some(),
        "asked by its mirror's uid"
    );
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn probes_change_the_status_of_a_container_and_of_its_pod() {
    let bench = Bench::start().await;
    let pod = bench.pod("p", json!({})).await;
    let uid = pod.metadata.uid.clone().unwrap();
    bench.manager.set_container_readiness(&uid, "c://1", false);
    assert_eq!(bench.manager.get(&uid), None, "before the first status there is nothing to change");
    let mut status = is_running();
    status.container_statuses.as_mut().unwrap()[0].container_id = Some("c://1".to_owned());
    bench.manager.set(&pod, status);
    bench.manager.set_container_readiness(&uid, "c://other", false);
    bench.manager.set_container_readiness(&uid, "c://1", false);
    bench.manager.set_container_startup(&uid, "c://1", false);
    let status = bench.manager.get(&uid).unwrap();
    let container = &status.container_statuses.as_ref().unwrap()[0];
    assert_eq!((container.ready, container.started), (false, Some(false)));
    let told: Vec<_> = status.conditions.iter().flatten().map(|one| one.status.as_str()).collect();
    assert_eq!(told, ["False", "False"]);
    bench.end().await;
}

#[test]
fn a_change_never_brings_back_the_status_before_another() {
    type Change = fn(&StatusManager, &Pod);
    let pod: Pod = read(json!({
        "metadata": { "name": "s", "namespace": "default", "uid": "u", "annotations": { CONFIG_SOURCE: "file" } },
        "spec": { "nodeName": "n", "containers": containers(&["a"]) },
    }));
    let with_id = |mut container: ContainerStatus| {
        container.container_id = Some("c://1".to_owned());
        PodStatus { container_statuses: Some(vec![container]), ..is_running() }
    };
    let changes: [(&str, Change); 4] = [
        ("readiness", |manager, _| manager.set_container_readiness("u", "c://1", false)),
        ("startup", |manager, _| manager.set_container_startup("u", "c://1", false)),
        ("its sandbox", |manager, pod| manager.set_sandbox_ready(pod)),
        ("the last", |manager, pod| manager.terminate(pod)),
    ];
    for (what, change) in changes {
        let node = Arc::new(Node::default());
        let manager = StatusManager::new(node.clone(), node.clone(), Metrics::new());
        node.pods.lock().insert("u".to_owned(), Arc::new(pod.clone()));
        manager.set(&pod, with_id(running("a")));
        let (other, of, newer) = (manager.clone(), pod.clone(), with_id(ended("a", 3)));
        *node.meanwhile.lock() = Some(Box::new(move || {
            _ = other.set(&of, PodStatus { phase: Some("Failed".to_owned()), ..newer })
        }));
        change(&manager, &pod);
        let status = manager.get("u").unwrap();
        assert_eq!(status.phase.as_deref(), Some("Failed"), "{what}");
        let state = status.container_statuses.unwrap().remove(0).state;
        assert_eq!(state.and_then(|state| state.terminated).map(|ended| ended.exit_code), Some(3), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_pod_is_told_with_the_end_of_its_containers() {
    let bench = Bench::start().await;
    let pod = bench.pod("p", json!({})).await;
    let failed = |container| PodStatus {
        phase: Some("Failed".to_owned()),
        container_statuses: Some(vec![container]),
        ..is_running()
    };
    let (manager, of) = (bench.manager.clone(), pod.clone());
    *bench.node.at_the_end.lock() = Some(Box::new(move || _ = manager.set(&of, failed(ended("a", 0)))));
    bench.manager.set(&pod, failed(running("a")));
    bench.wait(1).await;
    let patches = bench.recording.matching(&Calls::to("pods").subresource("status"));
    let first: Value = serde_json::from_slice(&patches[0].body).unwrap();
    assert_eq!(first["status"]["phase"], "Failed");
    assert_eq!(first["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_is_told_of_before_anything_runs_in_it() {
    let bench = Bench::start().await;
    let pod = bench.pod("p", json!({})).await;
    let conditions = json!([{ "type": "PodReadyToStartContainers", "status": "False" }]);
    bench.manager.set(&pod, read(json!({ "phase": "Pending", "conditions": conditions })));
    bench.wait(1).await;
    bench.manager.set_sandbox_ready(&pod);
    bench.wait(1).await;
    let stored = bench.stored("p").unwrap();
    assert_eq!(stored["status"]["phase"], "Pending");
    let conditions = stored["status"]["conditions"].as_array().unwrap();
    let told = conditions.iter().find(|condition| condition["type"] == "PodReadyToStartContainers");
    assert_eq!(told.unwrap()["status"], "True");
    assert!(told.unwrap()["lastTransitionTime"].is_string());
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn orphans_are_forgotten_and_ends_are_counted() {
    let bench = Bench::start().await;
    let (kept, gone) = (bench.pod("kept", json!({})).await, bench.pod("gone", json!({})).await);
    bench.manager.set(&kept, is_running());
    bench.manager.set(&gone, is_running());
    bench.wait(1).await;
    bench.manager.remove_orphaned(&HashSet::from([kept.metadata.uid.clone().unwrap()]));
    assert!(bench.manager.get(kept.metadata.uid.as_deref().unwrap()).is_some());
    assert!(bench.manager.get(gone.metadata.uid.as_deref().unwrap()).is_none());
    bench.manager.terminate(&kept);
    bench.manager.terminate(&kept);
    bench.wait(1).await;
    let registry = prometheus::Registry::new();
    bench.metrics.register(&registry).unwrap();
    let families = registry.gather();
    let of =
        |name: &str| families.iter().find(|family| family.name() == name).unwrap().get_metric()[0].clone();
    assert_eq!(of("kubelet_pod_status_sync_duration_seconds").get_histogram().get_sample_count(), 3);
    let ended = of("kubelet_terminated_containers_total");
    assert!((ended.get_counter().get_value() - 1.0).abs() < f64::EPSILON, "each end counts once");
    let labels: Vec<_> = ended.get_label().iter().map(|label| label.value().to_owned()).collect();
    assert_eq!(labels, ["container", "137", "ContainerStatusUnknown"]);
    bench.end().await;
}
