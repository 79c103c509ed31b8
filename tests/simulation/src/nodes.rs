//! A scheduler, and kubelets whose containers do nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube_runtime::watcher;
use kube_runtime::watcher::Event;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use steersman_apiserver::Clock;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::invariants::Invariants;

const NAMES: [&str; 3] = ["n1", "n2", "n3"];
/// The namespace of the nodes' Leases.
const LEASES: &str = "kube-node-lease";
/// How often a kubelet renews its Lease.
const RENEWAL: Duration = Duration::from_secs(10);

/// The nodes of a cluster.
#[derive(Clone)]
pub(crate) struct Nodes {
    client: kube::Client,
    clock: Clock,
    silent: Arc<Mutex<BTreeSet<&'static str>>>,
    random: Arc<Mutex<StdRng>>,
    invariants: Arc<Invariants>,
}

impl Nodes {
    pub(crate) fn new(client: kube::Client, clock: Clock, seed: u64, invariants: Arc<Invariants>) -> Self {
        let random = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
        Self { client, clock, silent: Arc::default(), random, invariants }
    }

    /// Makes one of them silent, which does nothing then; returns its name.
    pub(crate) fn silence(&self) -> &'static str {
        let name = self.any();
        self.silent.lock().insert(name);
        name
    }

    /// All of them are heard again.
    pub(crate) fn all_are_heard(&self) {
        self.silent.lock().clear();
    }

    fn any(&self) -> &'static str {
        NAMES[self.random.lock().random_range(0..NAMES.len())]
    }

    fn between(&self, least: f64, most: f64) -> Duration {
        Duration::from_secs_f64(self.random.lock().random_range(least..most))
    }

    fn is_silent(&self, node: &str) -> bool {
        self.silent.lock().contains(node)
    }

    /// Registers all nodes.
    pub(crate) async fn register(&self) {
        let nodes = Api::<Node>::all(self.client.clone());
        let leases = Api::<Lease>::namespaced(self.client.clone(), LEASES);
        for name in NAMES {
            let node = serde_json::from_value(json!({"metadata": {"name": name}})).expect("it is a Node");
            nodes.create(&PostParams::default(), &node).await.expect("a node is made");
            let status = status(&self.clock);
            let patched = nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await;
            patched.expect("its status is written");
            let taints = Patch::Merge(json!({"spec": {"taints": null}}));
            nodes.patch(name, &PatchParams::default(), &taints).await.expect("its taints are removed");
            let lease = json!({"metadata": {"name": name}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40}});
            let lease = serde_json::from_value(lease).expect("it is a Lease");
            leases.create(&PostParams::default(), &lease).await.expect("a lease is made");
        }
    }

    /// Writes a node's status if somebody has written that the node is not ready.
    async fn say_that_it_is_ready(&self, name: &str) {
        let nodes = Api::<Node>::all(self.client.clone());
        let Ok(node) = nodes.get(name).await else { return };
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|condition| condition.status == "Unknown") {
            let status = Patch::Merge(status(&self.clock));
            let _ = nodes.patch_status(name, &PatchParams::default(), &status).await;
        }
    }

    /// Renews the nodes' Leases, for ever.
    pub(crate) async fn live(self) {
        let leases = Api::<Lease>::namespaced(self.client.clone(), LEASES);
        loop {
            for name in NAMES.into_iter().filter(|name| !self.is_silent(name)) {
                let now = format!("{:.6}", self.clock.now());
                let patch = Patch::Merge(json!({"spec": {"renewTime": now}}));
                // While the server is away, a kubelet tries again.
                let _ = leases.patch(name, &PatchParams::default(), &patch).await;
                self.say_that_it_is_ready(name).await;
            }
            sleep(RENEWAL).await;
        }
    }

    /// Binds pods, runs them and ends them, for ever, and shows each state of a pod to the invariants.
    pub(crate) async fn run_pods(self) {
        let pods = Api::<Pod>::all(self.client.clone());
        let mut events = std::pin::pin!(watcher(pods, watcher::Config::default()));
        let (mut acts, mut listed) = (JoinSet::new(), BTreeSet::new());
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(Event::Apply(pod) | Event::InitApply(pod))) => {
                        listed.extend(pod.metadata.uid.clone());
                        let pod = serde_json::to_value(pod).expect("an object is JSON");
                        self.invariants.see_pod(&pod, true);
                        acts.spawn(self.clone().act(pod));
                    }
                    Some(Ok(Event::Delete(pod))) => {
                        let pod = serde_json::to_value(pod).expect("an object is JSON");
                        self.invariants.see_pod(&pod, false);
                    }
                    Some(Ok(Event::Init)) => listed.clear(),
                    Some(Ok(Event::InitDone)) => self.invariants.see_only(&listed),
                    Some(Err(_)) => sleep(Duration::from_millis(100)).await,
                    None => return,
                },
                Some(ended) = acts.join_next() => ended.expect("a kubelet does not panic"),
            }
        }
    }

    /// Does the next thing that this state of a pod asks for. It has no effect once the pod has another state.
    async fn act(self, pod: Value) {
        let meta = &pod["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name, node) =
            (text(&meta["namespace"]), text(&meta["name"]), text(&pod["spec"]["nodeName"]));
        let api = Api::<Pod>::namespaced(self.client.clone(), &namespace);
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        let is_deleted = !meta["deletionTimestamp"].is_null();
        let ends = meta["labels"]["ends"].is_string();
        let pause = match phase {
            _ if is_deleted => self.between(0.1, 2.0),
            "Pending" => self.between(0.05, 2.0),
            "Running" if ends => self.between(1.0, 6.0),
            // The node was silent, and somebody has written that its pods are not ready.
            "Running" if !is_ready(&pod) => self.between(0.1, 2.0),
            _ => return,
        };
        sleep(pause).await;
        while self.is_silent(&node) {
            sleep(Duration::from_secs(1)).await;
        }
        let preconditions = Preconditions { uid: Some(text(&meta["uid"])), resource_version: None };
        let target = wanted_node(&pod).unwrap_or_else(|| self.any().to_owned());
        let fails = self.random.lock().random_ratio(1, 6);
        // While the server is away, it tries again.
        for _ in 0..100 {
            let done = if is_deleted {
                let now = DeleteParams {
                    grace_period_seconds: Some(0),
                    preconditions: Some(preconditions.clone()),
                    ..DeleteParams::default()
                };
                api.delete(&name, &now).await.map(drop)
            } else if node.is_empty() {
                let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": target}});
                let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
                let request = http::Request::post(path).header("content-type", "application/json");
                let request = request.body(binding.to_string().into_bytes()).expect("it is a request");
                self.client.request::<Value>(request).await.map(drop)
            } else {
                let status = match (phase == "Running" && ends, fails) {
                    (false, _) => running(&text(&meta["uid"]), &self.clock),
                    (true, false) => ended("Succeeded", 0, &self.clock),
                    (true, true) => ended("Failed", 1, &self.clock),
                };
                let patch =
                    json!({"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status});
                let patched = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
                patched.map(|pod| {
                    self.invariants.see(&serde_json::to_value(pod).expect("an object is JSON"));
                })
            };
            match done {
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
                Err(_) => sleep(Duration::from_millis(500)).await,
                Ok(()) => return,
            }
        }
    }
}

fn status(clock: &Clock) -> Value {
    let now = clock.now().to_string();
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now});
    let resources = json!({"cpu": "8", "memory": "8Gi", "pods": "110"});
    json!({"status": {
        "conditions": [
            condition("Ready", "True"), condition("MemoryPressure", "False"),
            condition("DiskPressure", "False"), condition("PIDPressure", "False"),
        ],
        "allocatable": resources, "capacity": resources,
    }})
}

/// The node that a pod of a DaemonSet wants to be on.
fn wanted_node(pod: &Value) -> Option<String> {
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let wanted = &required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0];
    wanted.as_str().map(str::to_owned)
}

/// The address of a pod. Two pods hardly ever have the same.
pub(crate) fn address(uid: &str) -> String {
    let digits = u32::from_str_radix(&uid[..6], 16).unwrap_or_default();
    format!("10.{}.{}.{}", digits >> 16, digits >> 8 & 255, digits & 255)
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn running(uid: &str, clock: &Clock) -> Value {
    let (now, ip) = (clock.now().to_string(), address(uid));
    json!({
        "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "startTime": now,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
        "containerStatuses": [container(true, &json!({"running": {"startedAt": now}}))],
    })
}

fn ended(phase: &str, code: i32, clock: &Clock) -> Value {
    let now = clock.now().to_string();
    let state = json!({"terminated": {"exitCode": code, "startedAt": now, "finishedAt": now}});
    json!({
        "phase": phase,
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}],
        "containerStatuses": [container(false, &state)],
    })
}

fn container(ready: bool, state: &Value) -> Value {
    json!({"name": "main", "image": "image", "imageID": "i", "ready": ready, "restartCount": 0, "state": state})
}
