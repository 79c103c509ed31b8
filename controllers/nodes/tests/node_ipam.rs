//! Tests of the node IPAM controller against the test server.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::{Calls, Failure, Recording, Verb};
use steersman_controller::options::OptionSet;
use steersman_controller::testing::{Cluster, Running, eventually, settle};
use steersman_controllers_nodes::node_ipam::{CloudOptions, construct};

/// A controller that allocates from four blocks.
fn run(cluster: &Cluster) -> Running {
    let cloud = CloudOptions {
        allocate_node_cidrs: true,
        cluster_cidr: "10.0.0.0/22".to_owned(),
        ..CloudOptions::default()
    };
    cluster.run_with(construct, OptionSet::default().with(cloud))
}

async fn add(cluster: &Cluster, name: &str) {
    cluster.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await;
}

fn range(cluster: &Cluster, name: &str) -> Value {
    cluster.peek("nodes", name)["spec"]["podCIDRs"][0].clone()
}

async fn given(cluster: &Cluster, name: &str) -> Value {
    eventually(&format!("{name} has a range"), || Some(range(cluster, name)).filter(|range| !range.is_null()))
        .await
}

/// The bodies of the writes to a node.
fn written(recording: &Recording, name: &str) -> Vec<Value> {
    let patches = recording.matching(&Calls::to("nodes").verb(Verb::Patch).name(name));
    patches.iter().map(|call| serde_json::from_slice(&call.body).expect("a patch must be JSON")).collect()
}

#[tokio::test(start_paused = true)]
async fn the_nodes_are_listed_once_before_the_first_block_is_given() {
    let cluster = Cluster::start().await;
    for name in ["a", "b", "c"] {
        add(&cluster, name).await;
    }
    let recording = cluster.server.record();
    let controller = run(&cluster);
    let mut ranges = Vec::new();
    for name in ["a", "b", "c"] {
        ranges.push(given(&cluster, name).await.as_str().unwrap().to_owned());
    }
    ranges.sort_unstable();
    assert_eq!(ranges, ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24"]);
    settle().await;
    let calls = recording.matching(&Calls::to("nodes").user_agent("node-controller"));
    let calls: Vec<_> = calls.iter().map(|call| format!("{call:?}")).collect();
    assert_eq!(calls.len(), 4, "{calls:?}");
    assert!(calls[0].starts_with("list nodes"), "{calls:?}");
    let uid = cluster.peek("nodes", "a")["metadata"]["uid"].clone();
    let a = range(&cluster, "a");
    let patch = json!({"metadata": {"uid": uid}, "spec": {"podCIDR": a, "podCIDRs": [a]}});
    assert_eq!(written(&recording, "a"), [patch]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_made_again_with_the_same_block() {
    for failure in [Failure::ResetAfterwards, Failure::TimeoutAfterwards] {
        let cluster = Cluster::start().await;
        let recording = cluster.server.record();
        let patches = Calls::to("nodes").verb(Verb::Patch).name("a");
        cluster.server.faults().fail(7, patches, failure);
        let controller = run(&cluster);
        add(&cluster, "a").await;
        assert_eq!(given(&cluster, "a").await, "10.0.0.0/24");
        add(&cluster, "b").await;
        assert_eq!(given(&cluster, "b").await, "10.0.1.0/24");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let writes = written(&recording, "a");
        assert!(writes.iter().all(|write| write == &writes[0]), "{writes:?}");
        assert_eq!(range(&cluster, "a"), "10.0.0.0/24");
        controller.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_block_whose_write_never_arrives_is_lost_neither_with_its_node_nor_without() {
    let cluster = Cluster::start().await;
    let patches = Calls::to("nodes").verb(Verb::Patch).name("a");
    cluster.server.faults().fail(usize::MAX, patches, Failure::InternalError);
    let recording = cluster.server.record();
    let controller = run(&cluster);
    add(&cluster, "a").await;
    settle().await;
    for (name, block) in [("b", "10.0.1.0/24"), ("c", "10.0.2.0/24"), ("d", "10.0.3.0/24")] {
        add(&cluster, name).await;
        assert_eq!(given(&cluster, name).await, block);
    }
    add(&cluster, "e").await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!((range(&cluster, "a"), range(&cluster, "e")), (Value::Null, Value::Null));
    let reasons: Vec<_> = ["a", "e"].into_iter().map(|node| reasons(&recording, node)).collect();
    assert_eq!(reasons, [["CIDRAssignmentFailed"], ["CIDRNotAvailable"]]);
    // The node that waits gets the block at once, not after its back-off.
    cluster.delete("Node", "a").await;
    settle().await;
    assert_eq!(range(&cluster, "e"), "10.0.0.0/24");
    controller.stop().await;
}

/// The reasons of the events about a node, each once.
fn reasons(recording: &Recording, node: &str) -> Vec<String> {
    let created = recording.matching(&Calls::to("events").verb(Verb::Create));
    let events = created
        .iter()
        .map(|call| serde_json::from_slice::<Value>(&call.body).expect("an event must be JSON"));
    let about = events.filter(|event| event["involvedObject"]["name"] == node);
    let mut reasons: Vec<String> = about
        .map(|event| event["reason"].as_str().expect("an event must have a reason").to_owned())
        .collect();
    reasons.dedup();
    reasons
}

#[tokio::test(start_paused = true)]
async fn nothing_is_given_until_the_nodes_could_be_listed() {
    let cluster = Cluster::start().await;
    let lists = Calls::to("nodes").verb(Verb::List).user_agent("node-controller");
    cluster.server.faults().fail(3, lists, Failure::InternalError);
    let recording = cluster.server.record();
    let taken = json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "taken"}, "spec": taken});
    cluster.create(&node).await;
    let controller = run(&cluster);
    add(&cluster, "a").await;
    assert_eq!(given(&cluster, "a").await, "10.0.1.0/24");
    assert_eq!(written(&recording, "a").len(), 1);
    controller.stop().await;
}
