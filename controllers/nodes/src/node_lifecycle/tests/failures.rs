//! The whole controllers while watches are late, answers are lost and leaders change, in paused time.

use std::time::Duration;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use steersman_apiserver::{Calls, Failure, Verb};

use super::process::Process;
use super::world::{TOLERATED, World, condition};
use crate::node_lifecycle::NodeLifecycleOptions;

/// Nodes are marked, but get no taints with the effect `NoExecute`.
fn without_evictions() -> NodeLifecycleOptions {
    NodeLifecycleOptions { eviction_rate: 0.0, ..NodeLifecycleOptions::default() }
}

async fn three_nodes() -> World {
    let mut world = World::start().await;
    for (name, zone) in [("a", "one"), ("b", "one"), ("c", "two")] {
        world.join(name, zone).await;
    }
    world
}

/// Creates a ready pod that tolerates everything, and binds it to a node.
async fn place(world: &World, name: &str, node: &str) {
    let pod = steersman_testing::pod(name)
        .namespace("default")
        .containers(&["c"])
        .ready()
        .with(json!({"apiVersion": "v1", "kind": "Pod", "spec": {"tolerations": [{"operator": "Exists"}]}}))
        .build();
    world.cluster.create(&pod).await;
    world.bind(name, node).await;
}

fn is_ready(world: &World, pod: &str) -> bool {
    condition(&world.pod(pod), "Ready")["status"] == "True"
}

#[tokio::test(start_paused = true)]
async fn a_node_that_recovered_while_the_watch_of_nodes_is_late_gets_no_taint() {
    let mut world = three_nodes().await;
    let running = world.lead(NodeLifecycleOptions::default());
    world.seconds(20).await;
    world.report("a", "False").await;
    world.report("b", "False").await;
    // One node gets its taint at once, and the other one ten seconds later.
    world.seconds(7).await;
    let (tainted, waiting) = if world.taints("a", "NoExecute").is_empty() { ("b", "a") } else { ("a", "b") };
    assert_eq!(world.taints(tainted, "NoExecute"), ["not-ready"]);
    assert!(world.taints(waiting, "NoExecute").is_empty());
    world.cluster.server.faults().delay_watches(Calls::to("nodes"), Duration::from_secs(3600));
    world.report(waiting, "True").await;
    for _ in 0..60 {
        world.second().await;
        assert!(world.taints(waiting, "NoExecute").is_empty(), "after {} s", world.elapsed());
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_marked_if_the_answer_to_the_write_of_the_nodes_status_is_lost() {
    let mut world = three_nodes().await;
    let running = world.lead(without_evictions());
    world.seconds(20).await;
    let status = Calls::to("nodes").subresource("status").user_agent("node-controller");
    world.cluster.server.faults().fail(1, status, Failure::TimeoutAfterwards);
    world.kubelets.get_mut("a").unwrap().is_alive = false;
    world.seconds(80).await;
    assert_eq!(world.cluster.server.faults().pending(), 0);
    assert_eq!((world.ready("a").as_str(), is_ready(&world, "a")), ("Unknown", false));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_before_the_cache_shows_that_its_node_was_marked_is_marked() {
    let mut world = three_nodes().await;
    let running = world.lead(without_evictions());
    world.seconds(20).await;
    world.kubelets.get_mut("a").unwrap().is_alive = false;
    world.cluster.server.faults().delay_watches(Calls::to("nodes"), Duration::from_secs(20));
    while world.ready("a") != "Unknown" {
        assert!(world.elapsed() < 200);
        world.second().await;
    }
    place(&world, "late", "a").await;
    world.seconds(40).await;
    assert!(!is_ready(&world, "late"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_were_there_before_are_left_to_a_kubelet_that_reports_that_its_node_is_not_ready() {
    let mut world = three_nodes().await;
    world.report("a", "False").await;
    let running = world.lead(without_evictions());
    world.seconds(30).await;
    assert_eq!(world.taints("a", "NoSchedule"), ["not-ready"]);
    assert!(is_ready(&world, "a"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_that_somebody_else_calls_ready_is_marked_again() {
    let mut world = three_nodes().await;
    let running = world.lead(without_evictions());
    world.kubelets.get_mut("a").unwrap().is_alive = false;
    world.seconds(80).await;
    assert_eq!(world.ready("a"), "Unknown");
    let ready = Patch::Strategic(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(world.client.clone());
    nodes.patch_status("a", &PatchParams::default(), &ready).await.unwrap();
    assert_eq!(world.ready("a"), "True");
    world.seconds(12).await;
    assert_eq!(world.ready("a"), "Unknown");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_could_not_be_removed_when_no_node_was_ready_goes_later() {
    let mut world = three_nodes().await;
    let running = world.lead(NodeLifecycleOptions::default());
    world.seconds(20).await;
    world.kubelets.get_mut("a").unwrap().is_alive = false;
    world.seconds(80).await;
    assert_eq!(world.taints("a", "NoExecute"), ["unreachable"]);
    let writes = Calls::to("nodes").verb(Verb::Patch).name("a").user_agent("node-controller");
    let faults = world.cluster.server.faults();
    faults.fail(1_000_000, writes, Failure::InternalError);
    for name in ["b", "c"] {
        world.kubelets.get_mut(name).unwrap().is_alive = false;
    }
    world.seconds(90).await;
    assert_eq!((world.ready("b").as_str(), world.ready("c").as_str()), ("Unknown", "Unknown"));
    assert_eq!(world.taints("a", "NoExecute"), ["unreachable"]);
    faults.clear();
    world.seconds(15).await;
    assert!(world.taints("a", "NoExecute").is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_comes_back_fires_no_timer_of_its_earlier_term() {
    let mut world = three_nodes().await;
    let mut process = Process::start(&world, NodeLifecycleOptions::default());
    process.lead().await;
    world.seconds(10).await;
    world.report("a", "False").await;
    world.seconds(10).await;
    assert_eq!(world.taints("a", "NoExecute"), ["not-ready"]);
    process.step_down().await;
    // Another leader sees that the node is well.
    world.report("a", "True").await;
    world.cluster.patch("Node", "a", json!({"spec": {"taints": null}})).await;
    world.seconds(2 * TOLERATED).await;
    process.lead().await;
    world.seconds(2 * TOLERATED).await;
    assert!(!world.pod("a").is_null());
    process.crash().await;
}
