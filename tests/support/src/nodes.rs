//! Nodes whose kubelets the test plays: they renew leases and report.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, NodeCondition, Pod, PodCondition};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Cluster, eventually};

/// A cluster whose nodes the test plays.
pub struct Nodes {
    client: kube::Client,
    alive: Arc<parking_lot::Mutex<BTreeSet<String>>>,
    _kubelets: JoinSet<()>,
    pub cluster: Cluster,
}

impl Nodes {
    /// Nodes without a zone, in a cluster of their own.
    pub async fn start(names: &[&str]) -> Self {
        let zoned: Vec<_> = names.iter().map(|name| (*name, "")).collect();
        Self::start_in_zones(&zoned).await
    }

    /// Nodes in these zones, in a cluster of their own.
    pub async fn start_in_zones(nodes: &[(&str, &str)]) -> Self {
        Self::of(Cluster::start_own().await, nodes).await
    }

    /// Nodes of a cluster, with their zones.
    pub async fn of(cluster: Cluster, nodes: &[(&str, &str)]) -> Self {
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

    /// The nodes.
    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// The pods of the test's namespace.
    pub fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// Reports the status of a node.
    pub async fn report(&self, name: &str, ready: &str) {
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

    /// Sets conditions of a node.
    pub async fn conditions(&self, name: &str, conditions: Vec<Value>) {
        let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
        self.nodes().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// From now on the node is silent.
    pub fn silence(&self, name: &str) {
        self.alive.lock().remove(name);
    }

    /// The node is back.
    pub async fn revive(&self, name: &str) {
        self.alive.lock().insert(name.to_owned());
        self.report(name, "True").await;
    }

    /// Creates a ready pod on a node.
    pub async fn pod(&self, name: &str, node: &str, tolerations: Value) {
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}], "tolerations": tolerations});
        let pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let patch = Patch::Strategic(json!({"status": {"phase": "Running", "conditions": [ready]}}));
        self.pods().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Sets the taints of a node.
    pub async fn taint(&self, node: &str, taints: Value) {
        let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
        self.nodes().patch(node, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits for a state of a node.
    pub async fn node_has(&self, name: &str, what: &str, has: impl Fn(&Node) -> bool) -> Node {
        eventually(&format!("node {name} {what}"), || async {
            self.nodes().get(name).await.ok().filter(|node| has(node))
        })
        .await
    }

    /// Waits for a state of a pod.
    pub async fn pod_has(&self, name: &str, what: &str, has: impl Fn(&Pod) -> bool) -> Pod {
        eventually(&format!("pod {name} {what}"), || async {
            self.pods().get(name).await.ok().filter(|pod| has(pod))
        })
        .await
    }

    /// Waits until the taint eviction controller has deleted a pod.
    pub async fn is_evicted(&self, name: &str) {
        let pod = self.pod_has(name, "is deleted", |pod| pod.metadata.deletion_timestamp.is_some()).await;
        let target = pod_condition(&pod, "DisruptionTarget").unwrap();
        assert_eq!(
            (target.status.as_str(), target.reason.as_deref(), target.message.as_deref()),
            ("True", Some("DeletionByTaintManager"), Some("Taint manager: deleting due to NoExecute taint"))
        );
    }

    /// Waits for an event.
    pub async fn event(&self, namespace: &str, reason: &str, message: &str) {
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

/// A condition of a node.
pub fn condition(node: &Node, kind: &str) -> Option<NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind).cloned()
}

/// A condition of a pod.
pub fn pod_condition(pod: &Pod, kind: &str) -> Option<PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind).cloned()
}

/// Whether the node's condition `Ready` has this status.
pub fn is_ready(node: &Node, status: &str) -> bool {
    condition(node, "Ready").is_some_and(|ready| ready.status == status)
}

/// The keys of the node's taints with this effect, sorted.
pub fn taints(node: &Node, effect: &str) -> Vec<String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let mut keys: Vec<_> =
        taints.into_iter().filter(|taint| taint.effect == effect).map(|taint| taint.key).collect();
    keys.sort();
    keys
}

/// A toleration of a taint with the effect `NoExecute`, for ever or for so many seconds.
pub fn tolerate(key: &str, seconds: Option<u64>) -> Value {
    json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
}

/// The key of the taints of silent nodes.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The key of the taints of nodes whose kubelet reports that they are not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
