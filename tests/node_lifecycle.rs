//! Nodes that fall silent, and pods that their taints drive away, with the manager as a process.
//!
//! The tests play the kubelets. `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::eventually;
use support::manager::Manager;
use support::nodes::{NOT_READY, Nodes, UNREACHABLE, condition, is_ready, pod_condition, taints, tolerate};
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

fn manage(nodes: &Nodes) -> Manager {
    Manager::start(&nodes.cluster.kubeconfig(), FLAGS)
}

#[tokio::test]
async fn a_silent_node_is_marked_and_tainted_and_its_pods_move_until_it_comes_back() {
    let nodes = Nodes::start(&["a", "b"]).await;
    nodes.pod("short", "a", json!([tolerate(UNREACHABLE, Some(2)), tolerate(NOT_READY, Some(2))])).await;
    nodes.pod("ever", "a", json!([tolerate(UNREACHABLE, None), tolerate(NOT_READY, None)])).await;
    nodes.pod("other", "b", json!([tolerate(UNREACHABLE, Some(0)), tolerate(NOT_READY, Some(0))])).await;
    let _manager = manage(&nodes);
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
    let _manager = manage(&nodes);
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
    let _manager = manage(&nodes);
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
    let _manager = manage(&nodes);
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
    let _manager = manage(&nodes);
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
    // All zones: the taints go. The last node of zone z falls silent when the zone is disrupted: upstream may leave the taint of
    // a node that gets it while it counts the zones.
    for name in ["z2", "z3"] {
        nodes.silence(name);
    }
    for name in ["z2", "z3"] {
        nodes.node_has(name, "is silent", |node| is_ready(node, "Unknown")).await;
    }
    for name in ["x4", "z4"] {
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
    let mut manager = manage(&nodes);
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
    let _manager = manage(&nodes);
    nodes.is_evicted("kept").await;
    assert!(tainted.elapsed() >= Duration::from_secs(TOLERATED - 1), "after {:?}", tainted.elapsed());
    assert!(restarted.elapsed() < Duration::from_secs(TOLERATED), "began anew: {:?}", restarted.elapsed());
}
