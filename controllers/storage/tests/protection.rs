//! Tests of the protection controllers against the test server.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::{Calls, Failure, Verb};
use steersman_controller::testing::{Cluster, eventually, settle};
use steersman_controllers_storage::protection::claims;
use steersman_testing::{Pod, pod};

fn claim(name: &str) -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name, "namespace": "default", "finalizers": ["example.com/first", "kubernetes.io/pvc-protection"],
        },
        "spec": spec,
    })
}

/// A pod on a node that uses a claim.
fn user_of(claim: &str, name: &str) -> Pod {
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}});
    pod(name).namespace("default").on("n1").spec(json!({"volumes": [volume]}))
}

/// The finalizers of a claim.
fn finalizers(cluster: &Cluster, name: &str) -> Value {
    cluster.peek("persistentvolumeclaims", &format!("default/{name}"))["metadata"]["finalizers"].clone()
}

async fn let_go(cluster: &Cluster, name: &str) {
    eventually(&format!("{name} is not protected"), || {
        (finalizers(cluster, name) == json!(["example.com/first"])).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_list_of_the_pods_serves_all_claims_that_are_being_deleted() {
    let cluster = Cluster::start().await;
    let names: Vec<String> = (0..30).map(|at| format!("c{at}")).collect();
    for name in &names {
        cluster.create(&claim(name)).await;
        cluster.delete("PersistentVolumeClaim", &format!("default/{name}")).await;
    }
    cluster.create(&user_of("c7", "user").build()).await;
    let recording = cluster.server.record();
    let controller = cluster.run(claims::construct);
    for name in names.iter().filter(|name| *name != "c7") {
        let_go(&cluster, name).await;
    }
    settle().await;
    assert_ne!(finalizers(&cluster, "c7"), json!(["example.com/first"]));
    let lists = Calls::to("pods").verb(Verb::List).user_agent("pvc-protection-controller");
    assert_eq!(recording.count(&lists), 1);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_only_the_api_server_shows_keeps_its_claim() {
    let cluster = Cluster::start().await;
    cluster.create(&claim("data")).await;
    let controller = cluster.run(claims::construct);
    settle().await;
    cluster.server.faults().delay_watches(Calls::to("pods"), Duration::from_secs(3600));
    cluster.create(&user_of("data", "unseen").build()).await;
    cluster.delete("PersistentVolumeClaim", "default/data").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_ne!(finalizers(&cluster, "data"), json!(["example.com/first"]));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_does_not_serve_a_claim_that_was_queued_after_it_began() {
    let cluster = Cluster::start().await;
    cluster.create(&claim("data")).await;
    cluster.create(&claim("other")).await;
    let old = user_of("data", "old").spec(json!({"terminationGracePeriodSeconds": 0}));
    cluster.create(&old.build()).await;
    let controller = cluster.run(claims::construct);
    cluster.delete("PersistentVolumeClaim", "default/data").await;
    settle().await;
    // The list for the other claim shows that no pod uses `data`, and the cache shows that 5 seconds later.
    cluster.server.faults().delay_watches(Calls::to("pods"), Duration::from_secs(5));
    cluster.delete("Pod", "default/old").await;
    cluster.delete("PersistentVolumeClaim", "default/other").await;
    let_go(&cluster, "other").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster.create(&user_of("data", "new").build()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_ne!(finalizers(&cluster, "data"), json!(["example.com/first"]));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_let_go_after_lists_and_writes_that_failed() {
    let cluster = Cluster::start().await;
    cluster.create(&claim("data")).await;
    let faults = cluster.server.faults();
    let by = "pvc-protection-controller";
    faults.fail(2, Calls::to("pods").verb(Verb::List).user_agent(by), Failure::InternalError);
    faults.fail(2, Calls::to("persistentvolumeclaims").verb(Verb::Update), Failure::ResetAfterwards);
    cluster.delete("PersistentVolumeClaim", "default/data").await;
    let controller = cluster.run(claims::construct);
    let_go(&cluster, "data").await;
    settle().await;
    assert_eq!(finalizers(&cluster, "data"), json!(["example.com/first"]));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_the_finalizer_gets_it_beside_its_others() {
    let cluster = Cluster::start().await;
    let mut bare = claim("data");
    bare["metadata"]["finalizers"] = json!(["example.com/first"]);
    cluster.create(&bare).await;
    let stored = finalizers(&cluster, "data");
    let controller = cluster.run(claims::construct);
    settle().await;
    let expected = json!(["example.com/first", "kubernetes.io/pvc-protection"]);
    assert_eq!(finalizers(&cluster, "data"), expected, "it was {stored}");
    controller.stop().await;
}
