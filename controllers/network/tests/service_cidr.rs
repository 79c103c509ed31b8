//! Tests of the ServiceCIDR controller against the test server.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::time::Duration;

use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use steersman_api::{GroupVersionResource, ObjectKey};
use steersman_apiserver::{Calls, Failure, Verb};
use steersman_controller::testing::{Cluster, eventually, settle};
use steersman_controllers_network::service_cidr::construct;
use tokio::time::Instant;

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

fn api(cluster: &Cluster) -> Api<ServiceCIDR> {
    Api::all(cluster.server.in_memory_client())
}

async fn create(cluster: &Cluster, name: &str) {
    let cidr = json!({"metadata": {"name": name}, "spec": {"cidrs": ["10.7.0.0/24"]}});
    let cidr = serde_json::from_value(cidr).unwrap();
    api(cluster).create(&PostParams::default(), &cidr).await.unwrap();
}

/// A ServiceCIDR as the server stores it, or null.
fn peek(cluster: &Cluster, name: &str) -> Value {
    let resource = GroupVersionResource::new("networking.k8s.io", "v1", "servicecidrs");
    cluster.server.peek(&resource, &ObjectKey::new("", name)).unwrap_or_default()
}

async fn is_ready(cluster: &Cluster, name: &str) {
    eventually(&format!("{name} is ready"), || {
        let ready = &peek(cluster, name)["status"]["conditions"][0];
        (ready["message"] == "Kubernetes Service CIDR is ready").then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_comes_before_the_condition_and_goes_after_the_grace_period() {
    let cluster = Cluster::start().await;
    let recording = cluster.server.record();
    let controller = cluster.run(construct);
    create(&cluster, "a").await;
    is_ready(&cluster, "a").await;
    assert_eq!(peek(&cluster, "a")["metadata"]["finalizers"], json!([FINALIZER]));
    let began = Instant::now();
    api(&cluster).delete("a", &DeleteParams::default()).await.unwrap();
    eventually("it is gone", || peek(&cluster, "a").is_null().then_some(())).await;
    let took = began.elapsed();
    assert!(took > Duration::from_secs(9) && took < Duration::from_secs(12), "{took:?}");

    let calls = recording.matching(&Calls::to("servicecidrs").verb(Verb::Patch));
    let of_a: Vec<_> =
        calls.iter().map(|call| format!("{call:?}")).filter(|call| call.contains("/a ")).collect();
    assert_eq!(
        of_a,
        ["patch servicecidrs/a -> 200", "patch servicecidrs/status/a -> 200", "patch servicecidrs/a -> 200"]
    );
    let bodies = calls.iter().map(|call| serde_json::from_slice::<Value>(&call.body).unwrap());
    let last = bodies.last().unwrap();
    assert_eq!(last, json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_can_not_be_written_leads_to_an_event_and_another_attempt() {
    let cluster = Cluster::start().await;
    let controller = cluster.run(construct);
    is_ready(&cluster, "kubernetes").await;
    let status = Calls::to("servicecidrs").verb(Verb::Patch).subresource("status");
    cluster.server.faults().fail(1, status, Failure::InternalError);
    create(&cluster, "a").await;
    is_ready(&cluster, "a").await;
    settle().await;
    let events = GroupVersionResource::new("", "v1", "events");
    assert_eq!(cluster.server.count(&events), 1);
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::all(cluster.server.in_memory_client());
    let event = events.list(&Default::default()).await.unwrap().items.remove(0);
    assert_eq!(event.reason.as_deref(), Some("KubernetesServiceCIDRError"));
    assert_eq!(event.message.as_deref(), Some("The ServiceCIDR Status can not be set to Ready=True"));
    assert_eq!((event.type_.as_deref(), event.involved_object.name.as_deref()), (Some("Warning"), Some("a")));
    assert_eq!(event.source.unwrap().component.as_deref(), Some("service-cidr-controller"));
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_lags_leads_to_no_second_write() {
    let cluster = Cluster::start().await;
    let controller = cluster.run(construct);
    is_ready(&cluster, "kubernetes").await;
    cluster.server.faults().delay_watches(Calls::to("servicecidrs"), Duration::from_secs(2));
    let recording = cluster.server.record();
    create(&cluster, "a").await;
    is_ready(&cluster, "a").await;
    // Its event comes before the cache shows the condition of the other one.
    create(&cluster, "b").await;
    is_ready(&cluster, "b").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(recording.count(&Calls::to("servicecidrs").verb(Verb::Patch)), 4);
    controller.stop().await;
}
