//! What changes of nodes cost the DaemonSet controller.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use steersman_api::GroupVersionResource;
use steersman_apiserver::{Calls, Verb};
use steersman_controller::testing::{Cluster, Running, eventually, settle};
use steersman_controllers_workloads::daemon_set::construct;

const SETS: usize = 20;
const NODES: usize = 10;

async fn create_set(cluster: &Cluster, name: &str, node_selector: Value) {
    let labels = json!({"app": name});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"nodeSelector": node_selector, "containers": [{"name": "main", "image": "i"}]},
        }},
    });
    let sets = Api::<DaemonSet>::namespaced(cluster.server.in_memory_client(), "default");
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
}

async fn create_node(cluster: &Cluster, name: &str) {
    cluster.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await;
    cluster.patch("Node", name, json!({"spec": {"taints": []}})).await;
}

/// Waits until the status of a set says that this many nodes have a pod and must not have one.
async fn misplaces(cluster: &Cluster, set: &str, nodes: usize) {
    let resource = GroupVersionResource::new("apps", "v1", "daemonsets");
    let key = format!("default/{set}").parse().unwrap();
    eventually(&format!("{set} has pods out of place on {nodes} nodes"), || {
        let set = cluster.server.peek(&resource, &key)?;
        (set["status"]["numberMisscheduled"] == json!(nodes)).then_some(())
    })
    .await;
}

/// Waits until the status of a set says that this many nodes have the pod that they must have.
async fn has(cluster: &Cluster, set: &str, nodes: usize) {
    let resource = GroupVersionResource::new("apps", "v1", "daemonsets");
    let key = format!("default/{set}").parse().unwrap();
    eventually(&format!("{set} has pods on {nodes} nodes"), || {
        let set = cluster.server.peek(&resource, &key)?;
        let counts =
            ["desiredNumberScheduled", "currentNumberScheduled"].map(|field| set["status"][field].clone());
        let is_observed = set["status"]["observedGeneration"] == set["metadata"]["generation"];
        (is_observed && counts == [json!(nodes), json!(nodes)]).then_some(())
    })
    .await;
}

/// How often keys have been put into the controller's queue, once it has nothing to do.
async fn adds(controller: &Running) -> u64 {
    settle().await;
    let families = controller.metrics.gather();
    let family = families.iter().find(|family| family.name() == "workqueue_adds_total").unwrap();
    let of_queue = family.get_metric().iter().find(|one| one.get_label()[0].value() == "daemonset").unwrap();
    let adds = of_queue.get_counter().get_value();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a counter counts")]
    let adds = adds as u64;
    adds
}

#[tokio::test(start_paused = true)]
async fn a_node_that_vanishes_before_its_pod_is_counted_no_more() {
    let cluster = Cluster::start().await;
    create_node(&cluster, "node").await;
    let controller = cluster.run(construct);
    create_set(&cluster, "set", json!({})).await;
    has(&cluster, "set", 1).await;
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    let pods = Api::<Pod>::namespaced(cluster.server.in_memory_client(), "default");
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
    cluster.patch("Pod", &format!("default/{pod}"), held).await;
    let taints = json!([{"key": "k", "effect": "NoExecute"}]);
    cluster.patch("Node", "node", json!({"spec": {"taints": taints}})).await;
    misplaces(&cluster, "set", 1).await;
    cluster.delete("Node", "node").await;
    misplaces(&cluster, "set", 0).await;
    // The same node, as unfit as before.
    cluster
        .create(&json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}, "spec": {"taints": taints},
        }))
        .await;
    misplaces(&cluster, "set", 1).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_node_costs_syncs_only_for_the_sets_that_it_concerns() {
    let cluster = Cluster::start().await;
    for at in 0..NODES {
        create_node(&cluster, &format!("node-{at}")).await;
    }
    let controller = cluster.run(construct);
    for at in 0..SETS {
        create_set(&cluster, &format!("set-{at}"), json!({"group": format!("{at}")})).await;
    }
    create_set(&cluster, "everywhere", json!({})).await;
    has(&cluster, "everywhere", NODES).await;
    for at in 0..SETS {
        has(&cluster, &format!("set-{at}"), 0).await;
    }
    let recording = cluster.server.record();
    let before = adds(&controller).await;

    for at in 0..NODES {
        let node = format!("node-{at}");
        let heartbeat =
            json!({"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]});
        cluster.patch_status("Node", &node, heartbeat).await;
        cluster.patch("Node", &node, json!({"metadata": {"labels": {"zone": "a"}}})).await;
    }
    assert_eq!(adds(&controller).await, before, "no set goes by heartbeats, or by that label");

    cluster.patch("Node", "node-3", json!({"metadata": {"labels": {"group": "7"}}})).await;
    has(&cluster, "set-7", 1).await;
    // The node's change, the new pod and the status.
    let after = adds(&controller).await;
    assert!((before + 1..=before + 4).contains(&after), "{before} and then {after}");

    let taints = json!([{"key": "k", "effect": "NoSchedule"}]);
    cluster.patch("Node", "node-4", json!({"spec": {"taints": taints}})).await;
    let before = after;
    let after = adds(&controller).await;
    assert!((before + 1..=before + 3).contains(&after), "{before} and then {after}: only one set runs there");

    create_node(&cluster, "late").await;
    has(&cluster, "everywhere", NODES).await;
    cluster.delete("Node", "late").await;
    has(&cluster, "everywhere", NODES - 1).await;
    let before = after;
    let after = adds(&controller).await;
    assert!(after - before < 12, "{before} and then {after}: {SETS} sets have no concern with that node");

    let lists = Calls::to("pods").verb(Verb::List).user_agent("daemon-set-controller");
    assert_eq!(recording.count(&lists), 0, "no sync lists a namespace");
    controller.stop().await;
}
