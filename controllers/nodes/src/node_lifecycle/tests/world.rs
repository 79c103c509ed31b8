//! A cluster in this process, in paused time, with kubelets that the test plays.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use steersman_apiserver::Clock;
use steersman_controller::options::OptionSet;
use steersman_controller::testing::{Cluster, Running};
use tokio::time::{Instant, sleep};

use super::process::both;
use crate::node_lifecycle::NodeLifecycleOptions;

/// How often kubelets renew their leases, in seconds.
pub(super) const RENEWAL: u64 = 10;
/// For how many seconds the pods tolerate that their node is silent or not ready.
pub(super) const TOLERATED: u64 = 30;

/// A node that the test plays.
pub(super) struct Kubelet {
    pub zone: &'static str,
    pub is_alive: bool,
    /// The status of the condition `Ready` that it reports.
    pub reports: &'static str,
    /// When the kubelet last renewed its lease or reported.
    pub renewed: Instant,
}

pub(super) struct World {
    pub cluster: Cluster,
    pub client: kube::Client,
    pub kubelets: BTreeMap<String, Kubelet>,
    /// How far the wall clock of the control plane is ahead, in seconds.
    pub ahead: Arc<AtomicI64>,
    begun: Instant,
}

impl World {
    pub(super) async fn start() -> Self {
        let ahead = Arc::new(AtomicI64::new(0));
        let steady = Clock::following_tokio();
        let clock = Clock::from_fn({
            let ahead = Arc::clone(&ahead);
            move || steady.now() + jiff::SignedDuration::from_secs(ahead.load(Ordering::Relaxed))
        });
        let cluster = Cluster::start_with(clock).await;
        let client = cluster.server.in_memory_client();
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": "kube-node-lease"}})).unwrap();
        // The server may have it.
        let _ = Api::all(client.clone()).create(&PostParams::default(), &namespace).await;
        Self { cluster, client, kubelets: BTreeMap::new(), ahead, begun: Instant::now() }
    }

    pub(super) fn lead(&self, options: NodeLifecycleOptions) -> Running {
        self.cluster.run_with(both, OptionSet::default().with(options))
    }

    /// Adds a ready node with a lease and a pod.
    pub(super) async fn join(&mut self, name: &str, zone: &'static str) {
        let labels = json!({"topology.kubernetes.io/zone": zone, "kubernetes.io/os": "linux"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        self.cluster.create(&node).await;
        let kubelet = Kubelet { zone, is_alive: true, reports: "True", renewed: Instant::now() };
        self.kubelets.insert(name.to_owned(), kubelet);
        self.report(name, "True").await;
        self.renew(name).await;
        self.schedule(name).await;
    }

    /// Creates the node's pod, which is ready.
    pub(super) async fn schedule(&self, name: &str) {
        let tolerate = |key: &str| {
            let key = format!("node.kubernetes.io/{key}");
            json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED})
        };
        let pod = steersman_testing::pod(name)
            .namespace("default")
            .on(name)
            .containers(&["c"])
            .spec(json!({"tolerations": [tolerate("not-ready"), tolerate("unreachable")]}))
            .ready()
            .with(json!({"apiVersion": "v1", "kind": "Pod", "spec": {"terminationGracePeriodSeconds": 0}}))
            .build();
        self.cluster.create(&pod).await;
    }

    /// Binds a pod to a node, as a scheduler does.
    pub(super) async fn bind(&self, pod: &str, node: &str) {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node},
        });
        let pods = Api::<Pod>::namespaced(self.client.clone(), "default");
        let params = PostParams::default();
        pods.create_subresource::<Value, Value>("binding", pod, &params, &binding).await.unwrap();
    }

    /// Reports the node's status, as a kubelet does.
    pub(super) async fn report(&mut self, name: &str, ready: &'static str) {
        let kubelet = self.kubelets.get_mut(name).unwrap();
        (kubelet.reports, kubelet.renewed) = (ready, Instant::now());
        let now = self.stamp();
        let condition = |kind: &str, status: &str| {
            json!({
                "type": kind, "status": status, "reason": "Kubelet", "message": "m",
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            })
        };
        let conditions: Vec<_> = ["MemoryPressure", "DiskPressure", "PIDPressure"]
            .into_iter()
            .map(|kind| condition(kind, "False"))
            .chain([condition("Ready", ready)])
            .collect();
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        Api::<Node>::all(self.client.clone())
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(super) async fn renew(&mut self, name: &str) {
        let spec = json!({"holderIdentity": name, "renewTime": self.micro_stamp()});
        let leases = Api::<Lease>::namespaced(self.client.clone(), "kube-node-lease");
        let patch = Patch::Merge(json!({"spec": spec}));
        if leases.patch(name, &PatchParams::default(), &patch).await.is_err() {
            let lease = json!({"metadata": {"name": name}, "spec": spec});
            leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
        }
        self.kubelets.get_mut(name).unwrap().renewed = Instant::now();
    }

    /// Lets a second pass. Kubelets that are alive renew their leases when it is time, and report again what the API server does
    /// not show.
    pub(super) async fn second(&mut self) {
        sleep(Duration::from_secs(1)).await;
        let second = self.begun.elapsed().as_secs();
        let names: Vec<_> = self.kubelets.keys().cloned().collect();
        for (number, name) in names.into_iter().enumerate() {
            if self.kubelets[&name].is_alive && (second + number as u64).is_multiple_of(RENEWAL) {
                self.renew(&name).await;
                let reports = self.kubelets[&name].reports;
                if self.ready(&name) != reports {
                    self.report(&name, reports).await;
                }
            }
        }
    }

    pub(super) async fn seconds(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.second().await;
        }
    }

    pub(super) fn elapsed(&self) -> u64 {
        self.begun.elapsed().as_secs()
    }

    /// The status of the node's condition `Ready`.
    pub(super) fn ready(&self, name: &str) -> String {
        condition(&self.cluster.peek("nodes", name), "Ready")["status"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The keys of the node's taints with this effect, without their prefix.
    pub(super) fn taints(&self, name: &str, effect: &str) -> Vec<String> {
        let node = self.cluster.peek("nodes", name);
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let of_effect = taints.iter().filter(|taint| taint["effect"] == effect);
        of_effect.map(|taint| taint["key"].as_str().unwrap().replace("node.kubernetes.io/", "")).collect()
    }

    /// The node's pod, or null.
    pub(super) fn pod(&self, name: &str) -> Value {
        self.cluster.peek("pods", &format!("default/{name}"))
    }

    pub(super) async fn events(&self) -> Vec<(String, String)> {
        let events = Api::<Event>::all(self.client.clone()).list(&Default::default()).await.unwrap();
        let text = |event: Event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
        events.items.into_iter().map(text).collect()
    }

    pub(super) async fn pods(&self) -> usize {
        Api::<Pod>::all(self.client.clone()).list(&Default::default()).await.unwrap().items.len()
    }

    fn stamp(&self) -> String {
        self.cluster.server.clock().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    fn micro_stamp(&self) -> String {
        self.cluster.server.clock().now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    }
}

pub(super) fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}
