//! Nodes that fall silent, and pods that their taints drive away, with the manager as a process.
//!
//! The tests play the kubelets. `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, NodeCondition, Pod, PodCondition};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::manager::Manager;
use support::{Cluster, eventually};
use tokio::task::JoinSet;
use tokio::time::Instant;

const FLAGS: &[&str] = &[
    "--controllers=node-lifecycle-controller,taint-eviction-controller",
    "--node-monitor-period=1s",
    "--node-monitor-grace-period=8s",
    "--node-startup-grace-period=8s",
    "--node-eviction-rate=10",
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
];

/// A cluster whose nodes the test plays.
struct Nodes {
    client: kube::Client,
    alive: Arc<parking_lot::Mutex<BTreeSet<String>>>,
    _kubelets: JoinSet<()>,
    cluster: Cluster,
}

impl Nodes {
    /// Nodes without a zone.
    async fn start(names: &[&str]) -> Self {
        let zoned: Vec<_> = names.iter().map(|name| (*name, "")).collect();
        Self::start_in_zones(&zoned).await
    }

    async fn start_in_zones(nodes: &[(&str, &str)]) -> Self {
        let cluster = Cluster::start_own().await;
        let client = cluster.client();
        let alive = Arc::new(parking_lot::Mutex::new(BTreeSet::new()));
        let mut kubelets = JoinSet::new();
        kubelets.spawn(renew(client.clone(), Arc::clone(&alive)));
        let this = Self { client, alive, _kubelets: kubelets, cluster };
        for (name, zone) in nodes {
            let labels = json!({"topology.kubernetes.io/zone": zone, "kubernetes.io/os": "linux"});
            let node = json!({"metadata": {"name": name, "labels": labels}});
            let node = serde_json::from_value(node).unwrap();
            this.nodes().create(&PostParams::default(), &node).await.unwrap();
            this.report(name, "True").await;
            this.alive.lock().insert((*name).to_owned());
        }
        this
    }

    fn manager(&self) -> Manager {
        Manager::start(&self.cluster.kubeconfig(), FLAGS)
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// Reports the status of a node.
    async fn report(&self, name: &str, ready: &str) {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = |kind: &str, status: &str| {
            json!({
                "type": kind, "status": status, "reason": "Kubelet", "message": "m",
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            })
        };
        let pressures =
            ["MemoryPressure", "DiskPressure", "PIDPressure"].map(|kind| condition(kind, "False"));
        self.conditions(name, pressures.into_iter().chain([condition("Ready", ready)]).collect()).await;
    }

    async fn conditions(&self, name: &str, conditions: Vec<Value>) {
        let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
        self.nodes().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// From now on the node is silent.
    fn silence(&self, name: &str) {
        self.alive.lock().remove(name);
    }

    /// The node is back.
    async fn revive(&self, name: &str) {
        self.alive.lock().insert(name.to_owned());
        self.report(name, "True").await;
    }

    /// Creates a ready pod on a node.
    async fn pod(&self, name: &str, node: &str, tolerations: Value) {
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}], "tolerations": tolerations});
        let pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let patch = Patch::Strategic(json!({"status": {"phase": "Running", "conditions": [ready]}}));
        self.pods().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn taint(&self, node: &str, taints: Value) {
        let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
        self.nodes().patch(node, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn node_has(&self, name: &str, what: &str, has: impl Fn(&Node) -> bool) -> Node {
        eventually(&format!("node {name} {what}"), || async {
            self.nodes().get(name).await.ok().filter(|node| has(node))
        })
        .await
    }

    async fn pod_has(&self, name: &str, what: &str, has: impl Fn(&Pod) -> bool) -> Pod {
        eventually(&format!("pod {name} {what}"), || async {
            self.pods().get(name).await.ok().filter(|pod| has(pod))
        })
        .await
    }

    async fn is_evicted(&self, name: &str) {
        let pod = self.pod_has(name, "is deleted", |pod| pod.metadata.deletion_timestamp.is_some()).await;
        let target = pod_condition(&pod, "DisruptionTarget").unwrap();
        assert_eq!(
            (target.status.as_str(), target.reason.as_deref(), target.message.as_deref()),
            ("True", Some("DeletionByTaintManager"), Some("Taint manager: deleting due to NoExecute taint"))
        );
    }

    async fn event(&self, namespace: &str, reason: &str, message: &str) {
        let events = Api::<Event>::namespaced(self.client.clone(), namespace);
        eventually(&format!("event {message:?}"), || async {
            let events = events.list(&Default::default()).await.ok()?.items;
            let is = |event: &Event| {
                event.reason.as_deref() == Some(reason) && event.message.as_deref() == Some(message)
            };
            events.iter().any(is).then_some(())
        })
        .await;
    }
}

/// Renews the leases of the nodes that are alive.
async fn renew(client: kube::Client, alive: Arc<parking_lot::Mutex<BTreeSet<String>>>) {
    let leases = Api::<Lease>::namespaced(client, "kube-node-lease");
    loop {
        let names = alive.lock().clone();
        for name in names {
            let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
            let spec = json!({"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now});
            let patch = Patch::Merge(json!({"spec": spec}));
            if leases.patch(&name, &PatchParams::default(), &patch).await.is_err() {
                let lease =
                    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
                let _ = leases.create(&PostParams::default(), &lease).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn condition(node: &Node, kind: &str) -> Option<NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind).cloned()
}

fn pod_condition(pod: &Pod, kind: &str) -> Option<PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind).cloned()
}

fn is_ready(node: &Node, status: &str) -> bool {
    condition(node, "Ready").is_some_and(|ready| ready.status == status)
}

/// The keys of the node's taints with this effect, sorted.
fn taints(node: &Node, effect: &str) -> Vec<String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let mut keys: Vec<_> =
        taints.into_iter().filter(|taint| taint.effect == effect).map(|taint| taint.key).collect();
    keys.sort();
    keys
}

fn tolerate(key: &str, seconds: Option<u64>) -> Value {
    json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
}

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const NOT_READY: &str = "node.kubernetes.io/not-ready";

#[tokio::test]
async fn a_silent_node_is_marked_and_tainted_and_its_pods_move_until_it_comes_back() {
    let nodes = Nodes::start(&["a", "b"]).await;
    nodes.pod("short", "a", json!([tolerate(UNREACHABLE, Some(2)), tolerate(NOT_READY, Some(2))])).await;
    nodes.pod("ever", "a", json!([tolerate(UNREACHABLE, None), tolerate(NOT_READY, None)])).await;
    nodes.pod("other", "b", json!([tolerate(UNREACHABLE, Some(0)), tolerate(NOT_READY, Some(0))])).await;
    let _manager = nodes.manager();
    nodes.event("default", "RegisteredNode", "Node a event: Registered Node a in Controller").await;
    nodes.silence("a");
    let node = nodes.node_has("a", "is silent", |node| is_ready(node, "Unknown")).await;
    for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        let condition = condition(&node, kind).unwrap();
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_deref(), condition.message.as_deref()),
            ("Unknown", Some("NodeStatusUnknown"), Some("Kubelet stopped posting node status.")),
            "{kind}"
        );
    }
    let node = nodes
        .node_has("a", "is tainted", |node| {
            taints(node, "NoExecute") == [UNREACHABLE] && taints(node, "NoSchedule") == [UNREACHABLE]
        })
        .await;
    let stamps = node.spec.unwrap().taints.unwrap().into_iter().map(|taint| taint.time_added.is_some());
    assert!(stamps.collect::<Vec<_>>().iter().all(|stamp| *stamp));
    for pod in ["short", "ever"] {
        nodes
            .pod_has(pod, "is not ready", |pod| {
                pod_condition(pod, "Ready").is_some_and(|ready| ready.status == "False")
            })
            .await;
    }
    nodes.is_evicted("short").await;
    let namespace = nodes.cluster.namespace.clone();
    nodes.event("default", "NodeNotReady", "Node a status is now: NodeNotReady").await;
    nodes.event(&namespace, "NodeNotReady", "Node is not ready").await;
    nodes
        .event(&namespace, "TaintManagerEviction", &format!("Marking for deletion Pod {namespace}/short"))
        .await;

    nodes.revive("a").await;
    nodes
        .node_has("a", "has no taints", |node| {
            taints(node, "NoExecute").is_empty() && taints(node, "NoSchedule").is_empty()
        })
        .await;
    for pod in ["ever", "other"] {
        assert!(nodes.pods().get(pod).await.unwrap().metadata.deletion_timestamp.is_none(), "{pod}");
    }
    nodes.silence("b");
    nodes.nodes().delete("b", &Default::default()).await.unwrap();
    nodes.event("default", "RemovingNode", "Node b event: Removing Node b from Controller").await;
}

#[tokio::test]
async fn a_node_whose_kubelet_never_reported_is_marked_after_its_startup() {
    let nodes = Nodes::start(&["a"]).await;
    let node = serde_json::from_value(json!({"metadata": {"name": "new"}})).unwrap();
    nodes.nodes().create(&PostParams::default(), &node).await.unwrap();
    let _manager = nodes.manager();
    let node = nodes.node_has("new", "is silent", |node| is_ready(node, "Unknown")).await;
    for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        let condition = condition(&node, kind).unwrap();
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_deref(), condition.message.as_deref()),
            ("Unknown", Some("NodeStatusNeverUpdated"), Some("Kubelet never posted node status.")),
            "{kind}"
        );
        assert_eq!(condition.last_heartbeat_time, node.metadata.creation_timestamp, "{kind}");
    }
}

#[tokio::test]
async fn conditions_make_taints_and_stable_labels_the_older_ones() {
    let nodes = Nodes::start(&["a", "b"]).await;
    let _manager = nodes.manager();
    let has_label = |node: &Node| {
        node.metadata
            .labels
            .as_ref()
            .is_some_and(|labels| labels.get("beta.kubernetes.io/os").is_some_and(|os| os == "linux"))
    };
    nodes.node_has("a", "has the older label", has_label).await;
    let label = json!({"metadata": {"labels": {"beta.kubernetes.io/os": "windows"}}, "spec": {"unschedulable": true}});
    nodes.nodes().patch("a", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    nodes.node_has("a", "has the older label again", has_label).await;
    let key = |name: &str| format!("node.kubernetes.io/{name}");
    let all = ["disk-pressure", "memory-pressure", "network-unavailable", "pid-pressure", "unschedulable"];
    let stamp = "2026-01-01T00:00:00Z";
    let condition =
        |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": stamp});
    let kinds = ["DiskPressure", "MemoryPressure", "NetworkUnavailable", "PIDPressure"];
    nodes.conditions("a", kinds.iter().map(|kind| condition(kind, "True")).collect()).await;
    nodes.node_has("a", "has all taints", |node| taints(node, "NoSchedule") == all.map(key)).await;
    nodes.conditions("a", kinds.iter().map(|kind| condition(kind, "False")).collect()).await;
    let uncordon = Patch::Merge(json!({"spec": {"unschedulable": null}}));
    nodes.nodes().patch("a", &PatchParams::default(), &uncordon).await.unwrap();
    nodes.node_has("a", "has no taints", |node| taints(node, "NoSchedule").is_empty()).await;

    nodes.report("a", "False").await;
    nodes
        .node_has("a", "is not ready", |node| {
            taints(node, "NoSchedule") == [NOT_READY] && taints(node, "NoExecute") == [NOT_READY]
        })
        .await;
    nodes.silence("a");
    nodes
        .node_has("a", "is unreachable", |node| {
            taints(node, "NoSchedule") == [UNREACHABLE] && taints(node, "NoExecute") == [UNREACHABLE]
        })
        .await;
}

#[tokio::test]
async fn taints_with_no_execute_evict_the_pods_that_do_not_tolerate_them() {
    let nodes = Nodes::start(&["a"]).await;
    nodes.pod("none", "a", json!([])).await;
    nodes.pod("soon", "a", json!([tolerate("k", Some(3))])).await;
    nodes.pod("late", "a", json!([tolerate("k", Some(3600))])).await;
    nodes.pod("ever", "a", json!([tolerate("k", None)])).await;
    let _manager = nodes.manager();
    nodes.event("default", "RegisteredNode", "Node a event: Registered Node a in Controller").await;
    let tainted = Instant::now();
    nodes
        .taint("a", json!([{"key": "k", "effect": "NoExecute"}, {"key": "l", "effect": "NoSchedule"}]))
        .await;
    nodes.is_evicted("none").await;
    nodes.is_evicted("soon").await;
    assert!(tainted.elapsed() >= Duration::from_secs(3), "evicted after {:?}", tainted.elapsed());
    // A pod that comes later leaves as well.
    nodes.pod("new", "a", json!([])).await;
    nodes.is_evicted("new").await;
    nodes.taint("a", Value::Null).await;
    let namespace = &nodes.cluster.namespace;
    let cancelled = format!("Cancelling deletion of Pod {namespace}/late");
    nodes.event(namespace, "TaintManagerEviction", &cancelled).await;
    nodes.pod("newer", "a", json!([])).await;
    // Two taints, of which a pod tolerates one.
    nodes.taint("a", json!([{"key": "k", "effect": "NoExecute"}, {"key": "m", "effect": "NoExecute"}])).await;
    for pod in ["newer", "late", "ever"] {
        nodes.is_evicted(pod).await;
    }
}

#[tokio::test]
async fn zones_that_are_disrupted_are_spared() {
    let three = ["1", "2", "3", "4"];
    let names: Vec<(String, &str)> = ["x", "y", "z"]
        .iter()
        .flat_map(|zone| three.iter().map(move |number| (format!("{zone}{number}"), *zone)))
        .collect();
    let zoned: Vec<_> = names.iter().map(|(name, zone)| (name.as_str(), *zone)).collect();
    let nodes = Nodes::start_in_zones(&zoned).await;
    let _manager = nodes.manager();
    nodes.event("default", "RegisteredNode", "Node x1 event: Registered Node x1 in Controller").await;
    // Three of four nodes of a small zone: none is tainted. A whole zone: all are. One of four: it is.
    for name in ["x1", "x2", "x3", "y1", "y2", "y3", "y4", "z1"] {
        nodes.silence(name);
    }
    for name in ["y1", "y2", "y3", "y4", "z1"] {
        nodes.node_has(name, "is tainted", |node| taints(node, "NoExecute") == [UNREACHABLE]).await;
    }
    for name in ["x1", "x2", "x3"] {
        nodes.node_has(name, "is silent", |node| is_ready(node, "Unknown")).await;
    }
    // All zones: the taints go.
    for name in ["x4", "z2", "z3", "z4"] {
        nodes.silence(name);
    }
    for (name, _) in &zoned {
        nodes
            .node_has(name, "is silent and has no taint", |node| {
                is_ready(node, "Unknown") && taints(node, "NoExecute").is_empty()
            })
            .await;
    }
    // A node comes back: evictions go on in the zones that are dark, where there are others.
    for name in ["z2", "z3", "z4"] {
        nodes.revive(name).await;
    }
    for name in ["y1", "y2", "y3", "y4", "z1"] {
        nodes.node_has(name, "is tainted again", |node| taints(node, "NoExecute") == [UNREACHABLE]).await;
    }
}

/// Upstream's manager removes the taint when it starts, and begins anew.
#[tokio::test]
async fn a_manager_that_is_killed_restarts_no_toleration() {
    if Manager::is_upstream() {
        return;
    }
    const TOLERATED: u64 = 20;
    let nodes = Nodes::start(&["a"]).await;
    nodes.pod("mark", "a", json!([])).await;
    nodes.pod("kept", "a", json!([tolerate("k", Some(TOLERATED))])).await;
    let mut manager = nodes.manager();
    let tainted = Instant::now();
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    nodes.taint("a", json!([{"key": "k", "effect": "NoExecute", "timeAdded": now}])).await;
    nodes.is_evicted("mark").await;
    // Some of the time passes under the first manager.
    eventually("a third of the time passes", || async {
        (tainted.elapsed() > Duration::from_secs(TOLERATED / 3)).then_some(())
    })
    .await;
    manager.kill();
    let restarted = Instant::now();
    let _manager = nodes.manager();
    nodes.is_evicted("kept").await;
    assert!(tainted.elapsed() >= Duration::from_secs(TOLERATED - 1), "after {:?}", tainted.elapsed());
    assert!(restarted.elapsed() < Duration::from_secs(TOLERATED), "began anew: {:?}", restarted.elapsed());
}
