//! Tests of the TTL controller against the test server.

use serde_json::{Value, json};
use steersman_apiserver::{Calls, Verb};
use steersman_controller::testing::{Cluster, eventually, settle};
use steersman_controllers_nodes::ttl::construct;

const TTL: &str = "node.alpha.kubernetes.io/ttl";

fn name(number: usize) -> String {
    format!("n{number}")
}

async fn add(cluster: &Cluster, numbers: std::ops::RangeInclusive<usize>) {
    for number in numbers {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name(number)}});
        cluster.create(&node).await;
    }
}

async fn remove(cluster: &Cluster, numbers: std::ops::RangeInclusive<usize>) {
    for number in numbers {
        cluster.delete("Node", &name(number)).await;
    }
}

fn ttl(cluster: &Cluster, number: usize) -> Value {
    cluster.peek("nodes", &name(number))["metadata"]["annotations"][TTL].clone()
}

async fn all_have(cluster: &Cluster, numbers: std::ops::RangeInclusive<usize>, seconds: &str) {
    eventually(&format!("the nodes {numbers:?} have {seconds}"), || {
        numbers.clone().all(|number| ttl(cluster, number) == seconds).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn all_nodes_get_another_ttl_when_the_cluster_outgrows_its_step() {
    let cluster = Cluster::start().await;
    add(&cluster, 1..=100).await;
    let controller = cluster.run(construct);
    all_have(&cluster, 1..=100, "0").await;
    add(&cluster, 101..=101).await;
    all_have(&cluster, 1..=101, "15").await;
    remove(&cluster, 91..=101).await;
    settle().await;
    all_have(&cluster, 1..=90, "15").await;
    remove(&cluster, 90..=90).await;
    all_have(&cluster, 1..=89, "0").await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_is_patched_only_when_its_ttl_is_another() {
    let cluster = Cluster::start().await;
    add(&cluster, 1..=3).await;
    cluster.patch("Node", "n2", json!({"metadata": {"annotations": {TTL: "0", "a": "b"}}})).await;
    cluster.patch("Node", "n3", json!({"metadata": {"annotations": {TTL: "soon"}}})).await;
    let recording = cluster.server.record();
    let controller = cluster.run(construct);
    all_have(&cluster, 1..=3, "0").await;
    cluster.patch("Node", "n1", json!({"metadata": {"labels": {"a": "b"}}})).await;
    settle().await;
    let patches = recording.matching(&Calls::to("nodes").verb(Verb::Patch).user_agent("ttl-controller"));
    let bodies: Vec<Value> = patches.iter().map(|call| serde_json::from_slice(&call.body).unwrap()).collect();
    let annotate = json!({"metadata": {"annotations": {TTL: "0"}}});
    assert_eq!(bodies, [annotate.clone(), annotate]);

    cluster.patch("Node", "n2", json!({"metadata": {"annotations": {TTL: "60"}}})).await;
    all_have(&cluster, 1..=3, "0").await;
    assert_eq!(cluster.peek("nodes", "n2")["metadata"]["annotations"]["a"], "b");
    controller.stop().await;
}
