//! Tests of the pod garbage collector against the test server.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::{Calls, Failure, Verb};
use steersman_controller::options::OptionSet;
use steersman_controller::testing::{Cluster, eventually};
use steersman_controllers_nodes::pod_gc::{PodGcOptions, construct};
use steersman_testing::Pod;
use tokio::time::Instant;

fn pod(name: &str) -> Pod {
    steersman_testing::pod(name).namespace("default")
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

async fn is_gone(cluster: &Cluster, name: &str) {
    let key = format!("default/{name}");
    eventually(&format!("{key} is gone"), || cluster.peek("pods", &key).is_null().then_some(())).await;
}

fn is_there(cluster: &Cluster, name: &str) -> bool {
    !cluster.peek("pods", &format!("default/{name}")).is_null()
}

fn counted(metrics: &prometheus::Registry, family: &str) -> Vec<(String, f64)> {
    let name = format!("pod_gc_collector_force_delete_{family}_total");
    let families = metrics.gather();
    let samples = families.iter().filter(|one| one.name() == name).flat_map(|one| one.get_metric());
    samples
        .map(|sample| (sample.get_label()[1].value().to_owned(), sample.get_counter().get_value()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_orphan_fails_and_goes_once_its_node_has_been_missing_for_the_quarantine() {
    let cluster = Cluster::start().await;
    cluster.create(&node("n1")).await;
    cluster.create(&pod("fine").on("n1").phase("Running").build()).await;
    cluster.create(&pod("orphan").on("lost").phase("Running").build()).await;
    let recording = cluster.server.record();
    let began = Instant::now();
    let controller = cluster.run(construct);
    is_gone(&cluster, "orphan").await;
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(40) && took <= Duration::from_secs(61), "{took:?}");
    assert!(is_there(&cluster, "fine"));

    let calls = recording.matching(&Calls::all().user_agent("pod-garbage-collector"));
    let steps: Vec<_> = calls.iter().map(|call| format!("{call:?}")).collect();
    assert_eq!(
        steps,
        [
            "get nodes/lost -> 404",
            "patch pods/status/default/orphan -> 200",
            "delete pods/default/orphan -> 200"
        ]
    );
    let patch: Value = serde_json::from_slice(&calls[1].body).unwrap();
    assert_eq!(patch["status"]["phase"], "Failed");
    assert_eq!(patch["status"]["conditions"][0]["reason"], "DeletionByPodGC");
    assert_eq!(counted(&controller.metrics, "pods"), [("orphaned".to_owned(), 1.0)]);
    assert!(counted(&controller.metrics, "pod_errors").is_empty());
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_turns_up_within_the_quarantine_keeps_its_pods() {
    let cluster = Cluster::start().await;
    cluster.create(&pod("early").on("slow").phase("Running").build()).await;
    let recording = cluster.server.record();
    let controller = cluster.run(construct);
    tokio::time::sleep(Duration::from_secs(30)).await;
    cluster.create(&node("slow")).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(is_there(&cluster, "early"));
    assert_eq!(recording.count(&Calls::all().user_agent("pod-garbage-collector")), 0);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_the_cache_does_not_show_but_the_server_does_keeps_its_pods() {
    let cluster = Cluster::start().await;
    let controller = cluster.run(construct);
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.server.faults().delay_watches(Calls::to("nodes"), Duration::from_secs(3600));
    cluster.create(&node("unseen")).await;
    cluster.create(&pod("a").on("unseen").phase("Running").build()).await;
    let recording = cluster.server.record();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(is_there(&cluster, "a"));
    assert!(recording.count(&Calls::to("nodes").verb(Verb::Get)) > 1);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn terminated_pods_beyond_the_threshold_go() {
    let cluster = Cluster::start().await;
    cluster.create(&node("n1")).await;
    for at in 0..5 {
        cluster.create(&pod(&format!("p{at}")).on("n1").phase("Succeeded").build()).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let options = OptionSet::default().with(PodGcOptions { terminated_pod_threshold: 2 });
    let controller = cluster.run_with(construct, options);
    for at in 0..3 {
        is_gone(&cluster, &format!("p{at}")).await;
    }
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(is_there(&cluster, "p3") && is_there(&cluster, "p4"));
    assert_eq!(counted(&controller.metrics, "pods"), [("terminated".to_owned(), 3.0)]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_held_by_a_finalizer_fails_once_and_is_then_left_alone() {
    let cluster = Cluster::start().await;
    let held = pod("held").with(json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    cluster.create(&held.build()).await;
    cluster.delete("Pod", "default/held").await;
    let recording = cluster.server.record();
    let controller = cluster.run(construct);
    eventually("it has failed", || {
        (cluster.peek("pods", "default/held")["status"]["phase"] == "Failed").then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let calls = recording.matching(&Calls::all().user_agent("pod-garbage-collector"));
    assert_eq!(calls.len(), 2, "{calls:?}");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_counted_and_tried_again_and_hinders_no_other() {
    let cluster = Cluster::start().await;
    cluster.create(&node("n1")).await;
    for name in ["a", "b"] {
        cluster.create(&pod(name).on("n1").phase("Failed").build()).await;
    }
    let deletes = Calls::to("pods").verb(Verb::Delete).name("a");
    cluster.server.faults().fail(1, deletes, Failure::InternalError);
    let options = OptionSet::default().with(PodGcOptions { terminated_pod_threshold: 1 });
    let controller = cluster.run_with(construct, options);
    is_gone(&cluster, "a").await;
    assert!(is_there(&cluster, "b"));
    assert_eq!(counted(&controller.metrics, "pod_errors"), [("terminated".to_owned(), 1.0)]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_cannot_be_deleted_keep_nobody_behind_them_from_being_reached() {
    let cluster = Cluster::start().await;
    cluster.create(&node("n1")).await;
    for at in 0..600 {
        let stuck = pod(&format!("stuck-{at}")).namespace("kube-public").on("n1").phase("Failed");
        cluster.create(&stuck.build()).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    for name in ["terminated", "youngest"] {
        cluster.create(&pod(name).on("n1").phase("Failed").build()).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    cluster.create(&pod("orphan").on("lost").phase("Running").build()).await;
    let deletes = Calls::to("pods").verb(Verb::Delete).namespace("kube-public");
    cluster.server.faults().fail(usize::MAX, deletes, Failure::InternalError);
    let options = OptionSet::default().with(PodGcOptions { terminated_pod_threshold: 1 });
    let controller = cluster.run_with(construct, options);
    let reached = async {
        is_gone(&cluster, "terminated").await;
        is_gone(&cluster, "orphan").await;
    };
    tokio::time::timeout(Duration::from_secs(300), reached).await.expect("both must be reached");
    assert!(is_there(&cluster, "youngest"));
    controller.stop().await;
}
