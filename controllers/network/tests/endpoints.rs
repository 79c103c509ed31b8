//! Endpoints follow services and pods, and nothing is written that need not be.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::{Calls, Failure, Verb};
use steersman_controller::options::OptionSet;
use steersman_controller::testing::{Cluster, eventually, settle};
use steersman_controllers_network::endpoints::{EndpointsOptions, construct};
use steersman_testing::{Pod, pod};
use tokio::time::Instant;

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "default", "name": name},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    })
}

fn running(name: &str, app: &str, ip: &str) -> Pod {
    pod(name).namespace("default").label("app", app).on("n1").phase("Running").ip(ip)
}

/// The status of a running pod whose condition `Ready` is `ready`.
fn status(ready: &str) -> Value {
    let since = "2026-01-01T00:00:00Z";
    json!({"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]})
}

/// The addresses that an object lists, ready ones and others.
fn listed(endpoints: &Value) -> Option<(Vec<&str>, Vec<&str>)> {
    endpoints.get("metadata")?;
    let of = |state: &str| {
        let subsets = endpoints["subsets"].as_array().into_iter().flatten();
        let addresses = subsets.filter_map(move |subset| subset[state].as_array()).flatten();
        addresses.filter_map(|address| address["ip"].as_str()).collect()
    };
    Some((of("addresses"), of("notReadyAddresses")))
}

async fn lists(cluster: &Cluster, name: &str, ready: &[&str], others: &[&str]) -> Value {
    let key = format!("default/{name}");
    eventually(&format!("{key} lists {ready:?} and {others:?}"), || {
        let endpoints = cluster.peek("endpoints", &key);
        (listed(&endpoints) == Some((ready.to_vec(), others.to_vec()))).then_some(endpoints)
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn endpoints_follow_their_service_and_the_readiness_of_its_pods() {
    let cluster = Cluster::start().await;
    cluster.create(&service("web")).await;
    cluster.create(&running("a", "web", "10.0.0.1").unready().build()).await;
    cluster.create(&running("b", "other", "10.0.0.2").ready().build()).await;
    let controller = cluster.run(construct);

    lists(&cluster, "web", &[], &["10.0.0.1"]).await;
    cluster.patch_status("Pod", "default/a", status("True")).await;
    let endpoints = lists(&cluster, "web", &["10.0.0.1"], &[]).await;
    assert_eq!(
        endpoints["metadata"]["labels"],
        json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
    cluster.patch("Pod", "default/b", json!({"metadata": {"labels": {"app": "web"}}})).await;
    lists(&cluster, "web", &["10.0.0.1", "10.0.0.2"], &[]).await;
    cluster.patch_status("Pod", "default/a", json!({"phase": "Succeeded"})).await;
    lists(&cluster, "web", &["10.0.0.2"], &[]).await;
    cluster.delete("Endpoints", "default/web").await;
    lists(&cluster, "web", &["10.0.0.2"], &[]).await;
    cluster.delete("Service", "default/web").await;
    eventually("the endpoints are gone", || cluster.peek("endpoints", "default/web").is_null().then_some(()))
        .await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_where_nothing_changes_also_by_the_next_to_lead() {
    let cluster = Cluster::start().await;
    for name in ["web", "db"] {
        cluster.create(&service(name)).await;
        cluster.create(&running(name, name, "10.0.0.1").ready().build()).await;
    }
    let first = cluster.run(construct);
    lists(&cluster, "web", &["10.0.0.1"], &[]).await;
    lists(&cluster, "db", &["10.0.0.1"], &[]).await;
    settle().await;

    let recording = cluster.server.record();
    let by_controller = Calls::all().user_agent("endpoint-controller");
    cluster.patch("Pod", "default/web", json!({"metadata": {"annotations": {"x": "y"}}})).await;
    cluster.patch("Service", "default/web", json!({"metadata": {"annotations": {"x": "y"}}})).await;
    settle().await;
    first.stop().await;
    let second = cluster.run(construct);
    settle().await;
    assert_eq!(recording.count(&by_controller), 0, "{:?}", recording.writes());

    cluster.patch_status("Pod", "default/web", status("False")).await;
    lists(&cluster, "web", &[], &["10.0.0.1"]).await;
    settle().await;
    assert_eq!(recording.count(&by_controller), 1, "{:?}", recording.matching(&by_controller));
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_left_over_without_a_service_are_swept_at_the_start_but_not_somebodys_lock() {
    let cluster = Cluster::start().await;
    let endpoints = |name: &str, annotations: Value| {
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"namespace": "default", "name": name, "annotations": annotations},
        })
    };
    cluster.create(&endpoints("left", json!({}))).await;
    cluster.create(&endpoints("lock", json!({"control-plane.alpha.kubernetes.io/leader": "{}"}))).await;
    let controller = cluster.run(construct);
    eventually("the leftover is gone", || cluster.peek("endpoints", "default/left").is_null().then_some(()))
        .await;
    settle().await;
    assert!(!cluster.peek("endpoints", "default/lock").is_null());
    // Only the start sweeps, as upstream.
    cluster.create(&endpoints("late", json!({}))).await;
    settle().await;
    assert!(!cluster.peek("endpoints", "default/late").is_null());
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_lags_costs_neither_conflicts_nor_writes_too_many() {
    let cluster = Cluster::start().await;
    let controller = cluster.run(construct);
    settle().await;
    cluster.server.faults().delay_watches(Calls::to("endpoints"), Duration::from_secs(5));
    let recording = cluster.server.record();
    cluster.create(&service("web")).await;
    for at in 1..=5 {
        let (name, ip) = (format!("p{at}"), format!("10.0.0.{at}"));
        cluster.create(&running(&name, "web", &ip).ready().build()).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    lists(&cluster, "web", &["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"], &[]).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let calls = recording.matching(&Calls::to("endpoints").user_agent("endpoint-controller"));
    assert!(calls.iter().all(|call| call.code < 300), "{calls:?}");
    assert_eq!(calls.iter().filter(|call| call.verb == Verb::Create).count(), 1, "{calls:?}");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_looked_up_and_not_repeated() {
    let cluster = Cluster::start().await;
    let controller = cluster.run(construct);
    settle().await;
    cluster.server.faults().delay_watches(Calls::to("endpoints"), Duration::from_secs(60));
    let creates = Calls::to("endpoints").verb(Verb::Create);
    cluster.server.faults().fail(1, creates.clone(), Failure::ResetAfterwards);
    let recording = cluster.server.record();
    cluster.create(&service("web")).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(recording.count(&creates), 1, "{:?}", recording.requests());
    assert!(!cluster.peek("endpoints", "default/web").is_null());
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_made_anew_gets_endpoints_anew_though_the_cache_still_shows_the_old_ones() {
    let cluster = Cluster::start().await;
    cluster.create(&service("web")).await;
    let controller = cluster.run(construct);
    let old = lists(&cluster, "web", &[], &[]).await;
    settle().await;
    cluster.server.faults().delay_watches(Calls::to("endpoints"), Duration::from_secs(20));
    cluster.delete("Service", "default/web").await;
    eventually("the endpoints are gone", || cluster.peek("endpoints", "default/web").is_null().then_some(()))
        .await;
    settle().await;
    let recording = cluster.server.record();
    let began = Instant::now();
    cluster.create(&service("web")).await;
    let new = lists(&cluster, "web", &[], &[]).await;
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "long before the cache learns that the old ones are gone"
    );
    assert_ne!(old["metadata"]["uid"], new["metadata"]["uid"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let calls = recording.matching(&Calls::to("endpoints").user_agent("endpoint-controller"));
    assert!(calls.iter().all(|call| call.code < 300), "{calls:?}");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_change_within_a_batch_period_cost_one_write() {
    let cluster = Cluster::start().await;
    let options = EndpointsOptions { updates_batch_period: Duration::from_secs(10), ..Default::default() };
    let controller = cluster.run_with(construct, OptionSet::default().with(options));
    settle().await;
    cluster.create(&service("web")).await;
    lists(&cluster, "web", &[], &[]).await;
    let recording = cluster.server.record();
    for at in 1..=4 {
        cluster.create(&running(&format!("p{at}"), "web", &format!("10.0.0.{at}")).ready().build()).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    lists(&cluster, "web", &["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"], &[]).await;
    settle().await;
    assert_eq!(recording.count(&Calls::to("endpoints").verb(Verb::Update)), 1);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_told_in_an_event_and_tried_again() {
    let cluster = Cluster::start().await;
    let refusal = steersman_api::Status::failure(403, "Forbidden", "not today");
    let creates = Calls::to("endpoints").verb(Verb::Create);
    cluster.server.faults().fail(1, creates, Failure::Status(Box::new(refusal)));
    let recording = cluster.server.record();
    cluster.create(&service("web")).await;
    let controller = cluster.run(construct);
    lists(&cluster, "web", &[], &[]).await;
    let event = eventually("the event is written", || {
        recording.matching(&Calls::to("events").verb(Verb::Create)).pop()
    })
    .await;
    let event: Value = serde_json::from_slice(&event.body).unwrap();
    assert_eq!(
        (&event["reason"], &event["type"], &event["message"]),
        (
            &json!("FailedToCreateEndpoint"),
            &json!("Warning"),
            &json!("Failed to create endpoint for service default/web: not today")
        )
    );
    assert_eq!(event["involvedObject"]["kind"], "Endpoints");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_read_stops_the_services_that_select_it_and_no_others() {
    let cluster = Cluster::start().await;
    cluster.server.faults().spoil(Calls::to("pods"), "bad");
    for (name, ip) in [("web", "10.0.0.1"), ("db", "10.0.0.2")] {
        cluster.create(&service(name)).await;
        cluster.create(&running(name, name, ip).ready().build()).await;
    }
    cluster.create(&running("bad", "db", "10.0.0.3").ready().build()).await;
    let controller = cluster.run(construct);
    lists(&cluster, "web", &["10.0.0.1"], &[]).await;
    settle().await;
    assert!(cluster.peek("endpoints", "default/db").is_null());
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_the_cache_has_not_seen_go_with_their_service() {
    let cluster = Cluster::start().await;
    let controller = cluster.run(construct);
    settle().await;
    cluster.server.faults().delay_watches(Calls::to("endpoints"), Duration::from_secs(20));
    // As another leader would have written them.
    let written =
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"namespace": "default", "name": "web"}});
    cluster.create(&written).await;
    cluster.create(&service("web")).await;
    cluster.delete("Service", "default/web").await;
    let gone = eventually("the endpoints are gone", || {
        cluster.peek("endpoints", "default/web").is_null().then_some(())
    });
    tokio::time::timeout(Duration::from_secs(120), gone).await.expect("they must be deleted");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_service_costs_one_call() {
    let cluster = Cluster::start().await;
    cluster.create(&service("web")).await;
    let controller = cluster.run(construct);
    lists(&cluster, "web", &[], &[]).await;
    settle().await;
    let recording = cluster.server.record();
    cluster.delete("Service", "default/web").await;
    settle().await;
    let calls = recording.matching(&Calls::all().user_agent("endpoint-controller"));
    let calls: Vec<_> = calls.iter().map(|call| format!("{call:?}")).collect();
    assert_eq!(calls, ["delete endpoints/default/web -> 200"]);
    controller.stop().await;
}
