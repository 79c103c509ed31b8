//! The whole controller, against a server in the same process, in paused time.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_api::Status;
use steersman_apiserver::{Calls, Failure};
use steersman_controller::testing::{Cluster, Running, eventually, settle};
use steersman_testing::pod;
use tokio::time::{Instant, sleep};

use crate::taint_eviction::construct;

fn node(taints: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": taints}})
}

fn on_n(name: &str, tolerations: Value) -> Value {
    let tolerations = json!({"tolerations": tolerations});
    // A grace period of zero: no kubelet confirms the deletion.
    pod(name)
        .namespace("default")
        .on("n")
        .containers(&["c"])
        .spec(tolerations)
        .with(json!({"apiVersion": "v1", "kind": "Pod", "spec": {"terminationGracePeriodSeconds": 0}}))
        .build()
}

fn tolerating(seconds: u64) -> Value {
    json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}])
}

async fn taint(cluster: &Cluster, at: &str) {
    let taints = json!([{"key": "k", "effect": "NoExecute", "timeAdded": at}]);
    cluster.patch("Node", "n", json!({"spec": {"taints": taints}})).await;
}

async fn gone_after(cluster: &Cluster, pod: &str, since: Instant) -> u64 {
    eventually(&format!("{pod} is gone"), || cluster.peek("pods", pod).is_null().then_some(())).await;
    since.elapsed().as_secs()
}

fn stamp(cluster: &Cluster) -> String {
    let now = cluster.server.clock().now();
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn counted(running: &Running, family: &str) -> f64 {
    let families = running.metrics.gather();
    let family = families.iter().find(|one| one.name() == family).unwrap();
    family.get_metric()[0].get_counter().get_value()
        + family.get_metric()[0].get_histogram().get_sample_count() as f64
}

#[tokio::test(start_paused = true)]
async fn pods_leave_when_their_tolerations_run_out_also_after_a_failover() {
    let cluster = Cluster::start().await;
    cluster.create(&node(json!([]))).await;
    for (name, tolerations) in [
        ("none", json!([])),
        ("short", tolerating(60)),
        ("long", tolerating(300)),
        ("ever", json!([{"operator": "Exists"}])),
    ] {
        cluster.create(&on_n(name, tolerations)).await;
    }
    let running = cluster.run(construct);
    settle().await;
    taint(&cluster, &stamp(&cluster)).await;
    let begun = Instant::now();
    assert!(gone_after(&cluster, "default/none", begun).await <= 2);
    let at = gone_after(&cluster, "default/short", begun).await;
    assert!((59..=62).contains(&at), "after {at} s");
    assert!((counted(&running, "taint_eviction_controller_pod_deletions_total") - 2.0).abs() < 0.1);
    assert!((counted(&running, "taint_eviction_controller_pod_deletion_duration_seconds") - 2.0).abs() < 0.1);
    running.stop().await;
    sleep(Duration::from_secs(100)).await;

    // A new leader restarts no timer.
    let running = cluster.run(construct);
    let at = gone_after(&cluster, "default/long", begun).await;
    assert!((299..=303).contains(&at), "after {at} s");
    // A pod that comes to the node later has its whole time.
    let arrived = Instant::now();
    cluster.create(&on_n("late", tolerating(60))).await;
    let at = gone_after(&cluster, "default/late", arrived).await;
    assert!((59..=62).contains(&at), "after {at} s");
    assert!(!cluster.peek("pods", "default/ever").is_null());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_goes_cancels_evictions_and_says_so() {
    let cluster = Cluster::start().await;
    cluster.create(&node(json!([]))).await;
    cluster.create(&on_n("a", tolerating(60))).await;
    let running = cluster.run(construct);
    settle().await;
    taint(&cluster, &stamp(&cluster)).await;
    sleep(Duration::from_secs(30)).await;
    cluster.patch("Node", "n", json!({"spec": {"taints": null}})).await;
    sleep(Duration::from_secs(300)).await;
    assert!(!cluster.peek("pods", "default/a").is_null());
    let events = messages(&cluster).await;
    assert!(events.iter().any(|message| message == "Cancelling deletion of Pod default/a"), "{events:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_node_of_the_same_name_without_taints_cancels_evictions() {
    let cluster = Cluster::start().await;
    cluster.create(&node(json!([]))).await;
    cluster.create(&on_n("a", tolerating(60))).await;
    let running = cluster.run(construct);
    settle().await;
    taint(&cluster, &stamp(&cluster)).await;
    sleep(Duration::from_secs(30)).await;
    cluster.delete("Node", "n").await;
    sleep(Duration::from_secs(5)).await;
    cluster.create(&node(json!([]))).await;
    sleep(Duration::from_secs(300)).await;
    assert!(!cluster.peek("pods", "default/a").is_null());
    let events = messages(&cluster).await;
    assert!(events.iter().any(|message| message == "Cancelling deletion of Pod default/a"), "{events:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_other_writers_keep_changing_is_evicted_later() {
    let cluster = Cluster::start().await;
    cluster.create(&node(json!([]))).await;
    cluster.create(&on_n("a", json!([]))).await;
    let running = cluster.run(construct);
    settle().await;
    let conflict = Status::failure(409, "Conflict", "the object has been modified");
    let marks = Calls::to("pods").subresource("status");
    cluster.server.faults().fail(6, marks, Failure::Status(conflict.into()));
    taint(&cluster, &stamp(&cluster)).await;
    assert!(gone_after(&cluster, "default/a", Instant::now()).await <= 5);
    assert_eq!(cluster.server.faults().pending(), 0);
    assert!((counted(&running, "taint_eviction_controller_pod_deletions_total") - 1.0).abs() < 0.1);
    running.stop().await;
}

/// The messages of all events that were written.
async fn messages(cluster: &Cluster) -> Vec<String> {
    let events = kube::Api::<k8s_openapi::api::core::v1::Event>::all(cluster.server.in_memory_client());
    let events = events.list(&Default::default()).await.unwrap();
    events.items.into_iter().filter_map(|event| event.message).collect()
}
