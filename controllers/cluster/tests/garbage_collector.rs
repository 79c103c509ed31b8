//! Tests of the garbage collector against the test server: which calls it makes.

#![allow(clippy::unwrap_used, reason = "a test that meets what it did not expect should end")]

use std::time::Duration;

use serde_json::{Value, json};
use steersman_api::Status;
use steersman_apiserver::{Calls, Failure, Recording, Verb};
use steersman_controller::testing::{Cluster, eventually, settle};
use steersman_controllers_cluster::garbage_collector::construct;

fn config_map(name: &str, owners: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "namespace": "default", "name": name, "ownerReferences": owners },
    })
}

/// A reference to a config map that exists.
fn to(cluster: &Cluster, name: &str) -> Value {
    let owner = cluster.peek("configmaps", &format!("default/{name}"));
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["metadata"]["uid"] })
}

async fn is_gone(cluster: &Cluster, name: &str) {
    let key = format!("default/{name}");
    eventually(&format!("{key} is gone"), || cluster.peek("configmaps", &key).is_null().then_some(())).await;
}

/// The collector's calls, without those that caches and discovery make.
fn calls(recording: &Recording) -> Vec<String> {
    let all = recording.matching(&Calls::all().user_agent("generic-garbage-collector"));
    all.iter().map(|call| format!("{call:?}")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_dependent_costs_one_call() {
    let cluster = Cluster::start().await;
    cluster.create(&config_map("owner", &[])).await;
    for at in 0..5 {
        cluster.create(&config_map(&format!("of-{at}"), &[to(&cluster, "owner")])).await;
    }
    let recording = cluster.server.record();
    let controller = cluster.run(construct);
    settle().await;
    assert!(calls(&recording).is_empty(), "the caches show the owner: {:?}", calls(&recording));
    cluster.delete("ConfigMap", "default/owner").await;
    for at in 0..5 {
        is_gone(&cluster, &format!("of-{at}")).await;
    }
    settle().await;
    let mut calls = calls(&recording);
    calls.sort();
    let expected: Vec<_> = (0..5).map(|at| format!("delete configmaps/default/of-{at} -> 200")).collect();
    assert_eq!(calls, expected);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_cache_shows_as_it_was_is_read_before_it_goes() {
    let cluster = Cluster::start().await;
    cluster.create(&config_map("owner", &[])).await;
    let absent = json!({ "apiVersion": "v1", "kind": "Node", "name": "absent", "uid": "absent" });
    let controller = cluster.run(construct);
    settle().await;
    cluster.create(&config_map("touched", std::slice::from_ref(&absent))).await;
    cluster.create(&config_map("adopted", &[absent])).await;
    // The collector looks for the owner a second later.
    tokio::time::sleep(Duration::from_millis(500)).await;
    cluster.server.faults().delay_watches(Calls::to("configmaps"), Duration::from_secs(60));
    let recording = cluster.server.record();
    cluster.patch("ConfigMap", "default/touched", json!({ "data": { "key": "value" } })).await;
    let owners = json!({ "metadata": { "ownerReferences": [to(&cluster, "owner")] } });
    cluster.patch("ConfigMap", "default/adopted", owners).await;
    is_gone(&cluster, "touched").await;
    settle().await;
    let calls = calls(&recording);
    let of = |name: &str| -> Vec<_> { calls.iter().filter(|call| call.contains(name)).cloned().collect() };
    assert_eq!(of("nodes/absent"), ["get nodes/absent -> 404"]);
    let touched = ["delete configmaps/default/touched -> 409", "get configmaps/default/touched -> 200"];
    assert_eq!(of("touched")[..2], touched);
    assert_eq!(of("touched").last().unwrap(), "delete configmaps/default/touched -> 200");
    let adopted = ["delete configmaps/default/adopted -> 409", "get configmaps/default/adopted -> 200"];
    assert_eq!(of("adopted")[..2], adopted);
    assert!(!cluster.peek("configmaps", "default/adopted").is_null());
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn writes_that_always_conflict_are_tried_ever_more_rarely() {
    let cluster = Cluster::start().await;
    cluster.create(&config_map("owner", &[])).await;
    cluster.create(&config_map("living", &[])).await;
    cluster.create(&config_map("deleted", &[to(&cluster, "owner")])).await;
    cluster.create(&config_map("released", &[to(&cluster, "owner"), to(&cluster, "living")])).await;
    let controller = cluster.run(construct);
    settle().await;
    let conflict = || Failure::Status(Box::new(Status::failure(409, "Conflict", "a webhook refuses it")));
    let by = "generic-garbage-collector";
    let writes = |name: &str, verb| Calls::to("configmaps").name(name).verb(verb).user_agent(by);
    let both = [writes("deleted", Verb::Delete), writes("released", Verb::Patch)];
    both.iter().for_each(|calls| cluster.server.faults().fail(usize::MAX, calls.clone(), conflict()));
    let recording = cluster.server.record();
    cluster.delete("ConfigMap", "default/owner").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    for calls in &both {
        let count = recording.count(calls);
        assert!((4..30).contains(&count), "{count} writes in a second");
    }
    cluster.server.faults().clear();
    is_gone(&cluster, "deleted").await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_survives_its_namespaced_owner() {
    let cluster = Cluster::start().await;
    let controller = cluster.run(construct);
    cluster.create(&config_map("owner", &[])).await;
    let metadata = json!({ "name": "forged", "ownerReferences": [to(&cluster, "owner")] });
    cluster.create(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata })).await;
    cluster.create(&config_map("dependent", &[to(&cluster, "owner")])).await;
    settle().await;
    cluster.delete("ConfigMap", "default/owner").await;
    is_gone(&cluster, "dependent").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!cluster.peek("nodes", "forged").is_null());
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_an_unwatched_kind_is_looked_up_now_and_then() {
    let cluster = Cluster::start().await;
    // No cache shows objects without a watch.
    cluster.server.faults().delay_watches(Calls::to("secrets"), Duration::from_secs(3600));
    let controller = cluster.run(construct);
    settle().await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": "default", "name": "owner" },
    });
    cluster.create(&secret).await;
    let owner = cluster.peek("secrets", "default/owner");
    let owner =
        json!({ "apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": owner["metadata"]["uid"] });
    cluster.create(&config_map("dependent", &[owner])).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(!cluster.peek("configmaps", "default/dependent").is_null());
    cluster.delete("Secret", "default/owner").await;
    is_gone(&cluster, "dependent").await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_collector_looks_ever_more_rarely_for_a_kind_that_the_api_server_lacks() {
    let cluster = Cluster::start().await;
    let owner = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "name": "a", "uid": "a" });
    cluster.create(&config_map("dependent", &[owner])).await;
    let controller = cluster.run(construct);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let added =
        controller.metrics.gather().into_iter().find(|family| family.name() == "workqueue_adds_total");
    let added = added.expect("the queue must be measured");
    let of_queue = |metric: &&prometheus::proto::Metric| {
        metric.get_label().iter().any(|label| label.value() == "garbage_collector_attempt_to_delete")
    };
    let syncs: f64 =
        added.get_metric().iter().filter(of_queue).map(|metric| metric.get_counter().get_value()).sum();
    assert!((2.0..60.0).contains(&syncs), "{syncs} syncs in an hour");
    assert!(!cluster.peek("configmaps", "default/dependent").is_null());
    controller.stop().await;
}

fn secret(name: &str, owners: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "namespace": "default", "name": name, "ownerReferences": owners },
    })
}

/// Creates a config map whose deletion releases its dependents, with four dependents.
async fn orphaning(cluster: &Cluster) {
    let mut owner = config_map("owner", &[]);
    owner["metadata"]["finalizers"] = json!(["orphan"]);
    cluster.create(&owner).await;
    for at in 0..3 {
        cluster.create(&secret(&format!("of-{at}"), &[to(cluster, "owner")])).await;
    }
    cluster.create(&config_map("of-3", &[to(cluster, "owner")])).await;
}

fn are_released(cluster: &Cluster) -> bool {
    let secrets = (0..3).map(|at| cluster.peek("secrets", &format!("default/of-{at}")));
    let maps = [cluster.peek("configmaps", "default/of-3")];
    secrets.chain(maps).all(|object| {
        let metadata = &object["metadata"];
        metadata["name"].is_string() && metadata["ownerReferences"].as_array().is_none_or(Vec::is_empty)
    })
}

#[tokio::test(start_paused = true)]
async fn orphaning_releases_dependents_of_a_kind_that_no_cache_can_list() {
    let cluster = Cluster::start().await;
    let sick = Calls::to("secrets").user_agent("shared-informers");
    cluster.server.faults().fail(usize::MAX, sick, Failure::InternalError);
    orphaning(&cluster).await;
    let controller = cluster.run(construct);
    settle().await;
    cluster.delete("ConfigMap", "default/owner").await;
    is_gone(&cluster, "owner").await;
    assert!(are_released(&cluster));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn orphaning_waits_for_a_kind_that_the_collector_cannot_list_either() {
    let cluster = Cluster::start().await;
    cluster.server.faults().fail(usize::MAX, Calls::to("secrets").verb(Verb::List), Failure::InternalError);
    let watches = Calls::to("secrets").verb(Verb::Watch);
    cluster.server.faults().fail(usize::MAX, watches, Failure::InternalError);
    orphaning(&cluster).await;
    let recording = cluster.server.record();
    let controller = cluster.run(construct);
    settle().await;
    cluster.delete("ConfigMap", "default/owner").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!cluster.peek("configmaps", "default/owner").is_null());
    let lists = calls(&recording).iter().filter(|call| call.starts_with("list secrets")).count();
    assert!((5..=30).contains(&lists), "the collector must back off: {lists} lists in ten minutes");
    cluster.server.faults().clear();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(cluster.peek("configmaps", "default/owner").is_null());
    assert!(are_released(&cluster));
    controller.stop().await;
}
