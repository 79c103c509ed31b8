//! Tests of the horizontal pod autoscaler against the test server.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::time::Duration;

use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use steersman_apiserver::{
    Amounts, Calls, Clock, Failure, Recorded, Recording, RunningContainer, TestServer, Usage, Verb,
};
use steersman_controller::testing::{Cluster, eventually};
use steersman_controllers_autoscaling::horizontal_pod::construct;
use tokio::time::sleep;

/// The sync period, by default.
const PERIOD: Duration = Duration::from_secs(15);

/// Each container uses half of a processor.
#[derive(Debug)]
struct Half;

impl Usage for Half {
    fn of_container(&self, _: &RunningContainer<'_>) -> Option<Amounts> {
        Some(Amounts { cpu_millis: 500, memory_bytes: 1 << 20 })
    }

    fn covers_node(&self, _: &str) -> bool {
        false
    }
}

async fn cluster() -> Cluster {
    Cluster::on(TestServer::builder().clock(Clock::following_tokio()).usage(Half).start().await)
}

async fn create(cluster: &Cluster, object: Value) {
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
    let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
    let resource = ApiResource::from_gvk(&kind);
    let client = cluster.server.in_memory_client();
    let api = Api::<DynamicObject>::default_namespaced_with(client, &resource);
    let typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    api.create(&PostParams::default(), &typed).await.unwrap();
    if object.get("status").is_some() {
        let patch = Patch::Merge(json!({"status": object["status"]}));
        let name = object["metadata"]["name"].as_str().unwrap();
        api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
}

/// Creates a Deployment whose pods have the label `app`, and those pods. Each requests a processor.
async fn deployment(cluster: &Cluster, name: &str, app: &str, replicas: usize) {
    let labels = json!({"app": app});
    let resources = json!({"requests": {"cpu": "1", "memory": "2Mi"}});
    let spec = json!({"containers": [{"name": "main", "image": "i", "resources": resources}]});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    create(
        cluster,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
            "status": {"replicas": replicas},
        }),
    )
    .await;
    let since = "2026-01-01T00:00:00Z";
    let container = json!({
        "name": "main", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "containerID": "c://1",
        "state": {"running": {"startedAt": since}},
    });
    for at in 0..replicas {
        let status = json!({
            "phase": "Running", "startTime": since, "containerStatuses": [container],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
        });
        let metadata = json!({"name": format!("{name}-{at}"), "labels": labels});
        create(
            cluster,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}),
        )
        .await;
    }
}

async fn set_replicas(cluster: &Cluster, name: &str, replicas: i32) {
    let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
    let client = cluster.server.in_memory_client();
    let api = Api::<DynamicObject>::default_namespaced_with(client, &ApiResource::from_gvk(&kind));
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

fn target(percent: i32) -> Value {
    json!({"type": "Utilization", "averageUtilization": percent})
}

/// Creates an autoscaler of the Deployment of its name, which aims at half of all requests by three metrics.
async fn autoscaler(cluster: &Cluster, name: &str) {
    let metrics = json!([
        {"type": "Resource", "resource": {"name": "cpu", "target": target(50)}},
        {"type": "Resource", "resource": {"name": "memory", "target": target(50)}},
        {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "main", "target": target(50)}},
    ]);
    create(
        cluster,
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "maxReplicas": 9, "metrics": metrics,
            },
        }),
    )
    .await;
}

/// The reason of a condition; empty if there is none.
fn reason(cluster: &Cluster, name: &str, condition: &str) -> String {
    let autoscalers =
        steersman_api::GroupVersionResource::new("autoscaling", "v2", "horizontalpodautoscalers");
    let key = format!("default/{name}").parse().unwrap();
    let found = cluster.server.peek(&autoscalers, &key).unwrap_or_default();
    let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|one| one["type"] == condition);
    found.and_then(|one| one["reason"].as_str()).unwrap_or_default().to_owned()
}

async fn has_reason(cluster: &Cluster, name: &str, condition: &str, wanted: &str) {
    let what = format!("{name}: {condition} says {wanted}");
    eventually(&what, || (reason(cluster, name, condition) == wanted).then_some(())).await;
}

fn of_usage() -> Calls {
    Calls::to("pods").verb(Verb::List).user_agent("horizontal-pod-autoscaler")
}

/// The number of calls for the usage of pods.
fn usage_calls(recording: &Recording) -> usize {
    let calls: Vec<Recorded> = recording.matching(&of_usage());
    calls.iter().filter(|call| call.group == "metrics.k8s.io").count()
}

#[tokio::test(start_paused = true)]
async fn the_usage_of_pods_is_read_once_in_a_period_for_all_metrics() {
    let cluster = cluster().await;
    deployment(&cluster, "web", "web", 2).await;
    autoscaler(&cluster, "web").await;
    let recording = cluster.server.record();
    let controller = cluster.run(construct);
    has_reason(&cluster, "web", "ScalingActive", "ValidMetricFound").await;
    assert_eq!(usage_calls(&recording), 1);
    sleep(PERIOD * 10).await;
    assert_eq!(usage_calls(&recording), 11);
    controller.stop().await;
}

/// Serves the external metric `orders` with one series of this value. To the test server it is a custom resource.
async fn external_metric(cluster: &Cluster, value: &str) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "orders.external.metrics.k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": "external.metrics.k8s.io", "scope": "Namespaced", "names": {"plural": "orders", "kind": "Order"},
            "versions": [
                {"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    });
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let api =
        Api::<DynamicObject>::all_with(cluster.server.in_memory_client(), &ApiResource::from_gvk(&kind));
    api.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    create(
        cluster,
        json!({
            "apiVersion": "external.metrics.k8s.io/v1beta1", "kind": "Order", "metadata": {"name": "all"}, "value": value,
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_external_metric_is_read_once_in_a_period_for_all_autoscalers() {
    let cluster = cluster().await;
    external_metric(&cluster, "4").await;
    for name in ["web", "api", "jobs"] {
        deployment(&cluster, name, name, 2).await;
        let target = json!({"type": "AverageValue", "averageValue": "2"});
        let external = json!({"metric": {"name": "orders"}, "target": target});
        create(
            &cluster,
            json!({
                "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
                "spec": {
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                    "maxReplicas": 9, "metrics": [{"type": "External", "external": external}],
                },
            }),
        )
        .await;
    }
    let recording = cluster.server.record();
    let calls =
        || recording.count(&Calls::to("orders").verb(Verb::List).user_agent("horizontal-pod-autoscaler"));
    let controller = cluster.run(construct);
    for name in ["web", "api", "jobs"] {
        has_reason(&cluster, name, "ScalingActive", "ValidMetricFound").await;
    }
    assert_eq!(calls(), 1);
    sleep(PERIOD * 10).await;
    assert_eq!(calls(), 11);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn metrics_of_a_sync_share_the_error_of_their_call() {
    let cluster = cluster().await;
    deployment(&cluster, "web", "web", 2).await;
    autoscaler(&cluster, "web").await;
    cluster.server.faults().fail(usize::MAX, of_usage(), Failure::InternalError);
    let recording = cluster.server.record();
    let controller = cluster.run(construct);
    has_reason(&cluster, "web", "ScalingActive", "FailedGetResourceMetric").await;
    sleep(PERIOD * 4).await;
    assert_eq!(usage_calls(&recording), 5);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_target_without_replicas_is_no_rival_of_another_with_the_same_pods() {
    let cluster = cluster().await;
    deployment(&cluster, "green", "web", 2).await;
    deployment(&cluster, "blue", "web", 0).await;
    autoscaler(&cluster, "blue").await;
    autoscaler(&cluster, "green").await;
    let controller = cluster.run(construct);
    has_reason(&cluster, "blue", "ScalingActive", "ScalingDisabled").await;
    has_reason(&cluster, "green", "ScalingActive", "ValidMetricFound").await;
    sleep(PERIOD * 3).await;
    assert_eq!(reason(&cluster, "green", "ScalingActive"), "ValidMetricFound");
    // Blue takes over, and then green again.
    set_replicas(&cluster, "blue", 2).await;
    has_reason(&cluster, "green", "ScalingActive", "AmbiguousSelector").await;
    set_replicas(&cluster, "blue", 0).await;
    has_reason(&cluster, "green", "ScalingActive", "ValidMetricFound").await;
    controller.stop().await;
}
