//! The pods that the manager, as a process, collects because no kubelet and no owner will delete them.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

mod support;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::manager::Manager;
use support::{Cluster, eventually};

const FLAGS: &[&str] = &["--controllers=pod-garbage-collector-controller", "--terminated-pod-gc-threshold=2"];

struct Pods {
    api: Api<Pod>,
    nodes: Api<Node>,
    cluster: Cluster,
}

impl Pods {
    async fn start() -> Self {
        let cluster = Cluster::start_own().await;
        let client = cluster.client();
        Self { api: Api::default_namespaced(client.clone()), nodes: Api::all(client), cluster }
    }

    async fn node(&self, name: &str, taints: Value, ready: &str) {
        let node = json!({"metadata": {"name": name}, "spec": {"taints": taints}});
        self.nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
        self.nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    /// A pod with a finalizer, so that its last state can be seen.
    async fn pod(&self, name: &str, node: Option<&str>, status: Value) {
        let pod = json!({
            "metadata": {"name": name, "finalizers": ["example.com/hold"]},
            "spec": {
                "nodeName": node, "containers": [{"name": "main", "image": "image"}],
                "tolerations": [{"operator": "Exists"}],
            },
        });
        self.api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let status = Patch::Merge(json!({"status": status}));
        self.api.patch_status(name, &PatchParams::default(), &status).await.unwrap();
    }

    async fn is_deleting(&self, name: &str) -> bool {
        self.api.get(name).await.unwrap().metadata.deletion_timestamp.is_some()
    }

    /// Waits until a pod has ended and is being deleted without grace, lets it go, and returns its last status.
    async fn collected(&self, name: &str) -> Value {
        let status = eventually(&format!("{name} is collected"), || async {
            let pod = self.api.get(name).await.ok()?;
            let status = serde_json::to_value(pod.status).ok()?;
            let has_ended = status["phase"] == "Failed" || status["phase"] == "Succeeded";
            (has_ended && pod.metadata.deletion_grace_period_seconds == Some(0)).then_some(status)
        })
        .await;
        let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        self.api.patch(name, &PatchParams::default(), &release).await.unwrap();
        status
    }
}

#[tokio::test]
async fn pods_that_nothing_else_will_delete_are_collected() {
    let pods = Pods::start().await;
    pods.node("up", json!([]), "True").await;
    let out =
        json!([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]);
    pods.node("down", out, "Unknown").await;
    for name in ["first", "second", "third"] {
        pods.pod(name, Some("up"), json!({"phase": "Succeeded"})).await;
    }
    pods.pod("evicted", Some("up"), json!({"phase": "Failed", "reason": "Evicted"})).await;
    for (name, node) in [("runs", "up"), ("on-down", "down"), ("stays-on-down", "down"), ("orphan", "gone")] {
        pods.pod(name, Some(node), json!({"phase": "Running"})).await;
    }
    pods.pod("waits", None, json!({"phase": "Pending"})).await;
    pods.pod("unscheduled", None, json!({"phase": "Pending"})).await;
    for name in ["on-down", "unscheduled", "runs"] {
        pods.api.delete(name, &DeleteParams::default().grace_period(30)).await.unwrap();
    }
    let _manager = Manager::start(&pods.cluster.kubeconfig(), FLAGS);

    // Of four that have ended, two stay. Evicted ones go first, then the oldest, by whole seconds and by name.
    assert_eq!(pods.collected("evicted").await["phase"], "Failed");
    assert_eq!(pods.collected("first").await["phase"], "Succeeded");
    let down = pods.collected("on-down").await;
    assert_eq!((&down["phase"], &down["conditions"]), (&json!("Failed"), &Value::Null));
    assert_eq!(pods.collected("unscheduled").await["phase"], "Failed");

    // The next round comes after 20 s. What is collected is gone, and counts no more.
    pods.pod("fourth", Some("up"), json!({"phase": "Succeeded"})).await;
    assert_eq!(pods.collected("second").await["phase"], "Succeeded");

    // The node is asked for after a quarantine.
    let orphan = pods.collected("orphan").await;
    assert_eq!(orphan["phase"], "Failed");
    let condition = &orphan["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"], &condition["message"]),
        (
            &json!("DisruptionTarget"),
            &json!("True"),
            &json!("DeletionByPodGC"),
            &json!("PodGC: node no longer exists")
        )
    );
    for name in ["third", "fourth", "stays-on-down", "waits"] {
        assert!(!pods.is_deleting(name).await, "{name}");
    }
    let runs = pods.api.get("runs").await.unwrap();
    assert_eq!(runs.status.unwrap().phase.as_deref(), Some("Running"));
}
