//! The whole controllers, against a server in the same process, in paused time.

use std::time::Duration;

use serde_json::json;
use steersman_apiserver::{Calls, Failure, Verb};

use super::world::{TOLERATED, World, condition};
use crate::node_lifecycle::NodeLifecycleOptions;

fn fast() -> NodeLifecycleOptions {
    NodeLifecycleOptions { eviction_rate: 10.0, ..NodeLifecycleOptions::default() }
}

async fn three_nodes() -> World {
    let mut world = World::start().await;
    for (name, zone) in [("a", "one"), ("b", "one"), ("c", "two")] {
        world.join(name, zone).await;
    }
    world
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_marked_tainted_and_loses_its_pods_and_is_cleared_when_it_comes_back() {
    let mut world = three_nodes().await;
    let running = world.lead(fast());
    world.seconds(20).await;
    assert_eq!(world.cluster.peek("nodes", "a")["metadata"]["labels"]["beta.kubernetes.io/os"], "linux");
    world.kubelets.get_mut("a").unwrap().is_alive = false;
    world.seconds(38).await;
    assert_eq!(world.ready("a"), "True");
    world.seconds(27).await;
    let node = world.cluster.peek("nodes", "a");
    let ready = condition(&node, "Ready");
    assert_eq!(
        (&ready["status"], &ready["reason"], &ready["message"]),
        (&json!("Unknown"), &json!("NodeStatusUnknown"), &json!("Kubelet stopped posting node status."))
    );
    assert_eq!(condition(&node, "PIDPressure")["status"], "Unknown");
    assert_eq!(world.taints("a", "NoSchedule"), ["unreachable"]);
    assert_eq!(world.taints("a", "NoExecute"), ["unreachable"]);
    let ready = condition(&world.pod("a"), "Ready");
    assert_eq!(ready["status"], "False");
    world.seconds(TOLERATED).await;
    assert!(world.pod("a").is_null(), "{}", world.pod("a"));
    assert_eq!(world.pods().await, 2);
    let events = world.events().await;
    for (reason, message) in [
        ("RegisteredNode", "Node a event: Registered Node a in Controller"),
        ("NodeNotReady", "Node a status is now: NodeNotReady"),
        ("NodeNotReady", "Node is not ready"),
        ("TaintManagerEviction", "Marking for deletion Pod default/a"),
    ] {
        assert!(events.contains(&(reason.to_owned(), message.to_owned())), "{message}: {events:?}");
    }

    world.kubelets.get_mut("a").unwrap().is_alive = true;
    world.seconds(20).await;
    assert_eq!(
        (world.ready("a").as_str(), world.taints("a", "NoExecute"), world.taints("a", "NoSchedule")),
        ("True", vec![], vec![])
    );
    world.kubelets.remove("c");
    world.cluster.delete("Node", "c").await;
    world.seconds(10).await;
    let removed = ("RemovingNode".to_owned(), "Node c event: Removing Node c from Controller".to_owned());
    assert!(world.events().await.contains(&removed));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_reports_not_ready_gets_the_other_taint_and_swaps_it_when_it_falls_silent() {
    let mut world = three_nodes().await;
    let running = world.lead(fast());
    world.seconds(5).await;
    world.kubelets.get_mut("a").unwrap().is_alive = false;
    world.report("a", "False").await;
    world.seconds(8).await;
    assert_eq!(
        (world.taints("a", "NoExecute"), world.taints("a", "NoSchedule")),
        (vec!["not-ready".to_owned()], vec!["not-ready".to_owned()])
    );
    // Its kubelet speaks for the pods.
    assert_eq!(condition(&world.pod("a"), "Ready")["status"], "True");
    world.seconds(60).await;
    assert_eq!(
        (world.taints("a", "NoExecute"), world.taints("a", "NoSchedule")),
        (vec!["unreachable".to_owned()], vec!["unreachable".to_owned()])
    );
    // A pod that comes now is marked at once.
    let late = steersman_testing::pod("late")
        .namespace("default")
        .containers(&["c"])
        .ready()
        .with(json!({"apiVersion": "v1", "kind": "Pod", "spec": {"tolerations": [{"operator": "Exists"}]}}))
        .build();
    world.cluster.create(&late).await;
    world.bind("late", "a").await;
    world.seconds(2).await;
    assert_eq!(condition(&world.pod("late"), "Ready")["status"], "False");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_its_own_that_stalls_is_no_silence_of_nodes() {
    let mut world = three_nodes().await;
    let running = world.lead(fast());
    world.seconds(20).await;
    let faults = world.cluster.server.faults();
    faults.delay_watches(Calls::to("leases"), Duration::from_secs(3600));
    for _ in 0..300 {
        world.second().await;
        assert!(
            ["a", "b", "c"].iter().all(|node| world.ready(node) == "True"),
            "after {} s",
            world.elapsed()
        );
    }
    // Nor if the API server can't be asked.
    faults.fail(1000, Calls::to("leases").verb(Verb::List), Failure::InternalError);
    for _ in 0..300 {
        world.second().await;
        assert!(
            ["a", "b", "c"].iter().all(|node| world.ready(node) == "True"),
            "after {} s",
            world.elapsed()
        );
    }
    faults.clear();
    world.kubelets.get_mut("b").unwrap().is_alive = false;
    world.seconds(130).await;
    assert_eq!(world.ready("b"), "Unknown");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_could_not_be_marked_are_marked_later_also_by_another_leader() {
    let mut world = three_nodes().await;
    let faults = world.cluster.server.faults();
    faults.fail(1_000_000, Calls::to("pods").subresource("status"), Failure::InternalError);
    let slow = NodeLifecycleOptions { eviction_rate: 0.0, ..NodeLifecycleOptions::default() };
    let running = world.lead(slow.clone());
    world.seconds(5).await;
    world.kubelets.get_mut("a").unwrap().is_alive = false;
    world.seconds(70).await;
    assert_eq!(
        (world.ready("a").as_str(), condition(&world.pod("a"), "Ready")["status"].as_str()),
        ("Unknown", Some("True"))
    );
    running.stop().await;
    faults.clear();
    let running = world.lead(slow);
    world.seconds(10).await;
    assert_eq!(condition(&world.pod("a"), "Ready")["status"], "False");
    running.stop().await;
}
