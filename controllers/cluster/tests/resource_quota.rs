//! Tests of the resource quota controller against the test server.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Method, Request};
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::client::Body;
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use steersman_api::{Quantity, Status, Time};
use steersman_apiserver::{Calls, Failure, Verb};
use steersman_client::Clients;
use steersman_controller::options::OptionSet;
use steersman_controller::testing::{Cluster, Running, context, eventually, settle};
use steersman_controllers_cluster::resource_quota::{ResourceQuotaOptions, construct};
use steersman_testing::Pod;
use tower::{ServiceExt, service_fn};

#[path = "resource_quota/recount.rs"]
mod recount;

fn pod(name: &str) -> Pod {
    steersman_testing::pod(name).namespace("default")
}

fn asking(name: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    pod(name).spec(json!({"containers": [{"name": "c", "image": "i", "resources": resources}]})).build()
}

fn object(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}})
}

fn quota(name: &str, hard: Value) -> Value {
    let mut quota = object("ResourceQuota", name);
    quota["spec"] = json!({"hard": hard});
    quota
}

fn used(cluster: &Cluster, quota: &str) -> Value {
    cluster.peek("resourcequotas", &format!("default/{quota}"))["status"]["used"].clone()
}

async fn uses(cluster: &Cluster, quota: &str, expected: Value) {
    let is_so = || (used(cluster, quota) == expected).then_some(());
    let what = format!("{quota} uses {expected}");
    let wait = eventually(&what, is_so);
    if tokio::time::timeout(Duration::from_secs(60), wait).await.is_err() {
        panic!("{quota} uses {}, and not {expected}", used(cluster, quota));
    }
}

/// A controller that does not resync, so that no figure is right by chance.
fn run(cluster: &Cluster) -> Running {
    let options = ResourceQuotaOptions { sync_period: Duration::ZERO, ..ResourceQuotaOptions::default() };
    cluster.run_with(construct, OptionSet::default().with(options))
}

fn status_writes() -> Calls {
    Calls::to("resourcequotas").subresource("status").user_agent("resourcequota-controller")
}

#[tokio::test(start_paused = true)]
async fn a_quota_follows_its_objects_at_once() {
    let cluster = Cluster::start().await;
    cluster.create(&asking("first", "250m")).await;
    let controller = run(&cluster);
    let hard = json!({"pods": "5", "cpu": "2", "services": "3", "services.nodeports": "2", "secrets": "4"});
    cluster.create(&quota("q", hard.clone())).await;
    let zero =
        json!({"pods": "1", "cpu": "250m", "services": "0", "services.nodeports": "0", "secrets": "0"});
    uses(&cluster, "q", zero).await;
    assert_eq!(cluster.peek("resourcequotas", "default/q")["status"]["hard"], hard);

    cluster.create(&asking("second", "500m")).await;
    cluster.create(&object("Secret", "s")).await;
    let mut service = object("Service", "web");
    service["spec"] = json!({"type": "NodePort", "ports": [{"port": 80}]});
    cluster.create(&service).await;
    let all = json!({"pods": "2", "cpu": "750m", "services": "1", "services.nodeports": "1", "secrets": "1"});
    uses(&cluster, "q", all).await;

    cluster.delete("Secret", "default/s").await;
    cluster.patch("Service", "default/web", json!({"spec": {"type": "ClusterIP"}})).await;
    cluster.patch_status("Pod", "default/second", json!({"phase": "Succeeded"})).await;
    let less =
        json!({"pods": "1", "cpu": "250m", "services": "1", "services.nodeports": "0", "secrets": "0"});
    uses(&cluster, "q", less.clone()).await;
    // The limits change, and a name goes.
    let patch = json!({"spec": {"hard": {"pods": "9", "secrets": null}}});
    cluster.patch("ResourceQuota", "default/q", patch).await;
    let mut less = less;
    less.as_object_mut().unwrap().remove("secrets");
    uses(&cluster, "q", less).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_right_is_not_written() {
    let cluster = Cluster::start().await;
    cluster.create(&asking("a", "250m")).await;
    let mut right = quota("q", json!({"pods": "5", "cpu": "2"}));
    right["status"] = json!({"hard": {"pods": "5", "cpu": "2000m"}, "used": {"pods": "1", "cpu": "0.25"}});
    cluster.create(&right).await;
    let recording = cluster.server.record();
    let controller = cluster.run(construct);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(recording.count(&status_writes()), 0);
    // Admission charges the second pod, so the controller finds nothing to do.
    cluster.create(&asking("b", "250m")).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(used(&cluster, "q"), json!({"pods": "2", "cpu": "500m"}));
    assert_eq!(recording.count(&status_writes()), 0);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_kinds_that_some_quota_names_are_watched() {
    let cluster = Cluster::start().await;
    let recording = cluster.server.record();
    let watched = || {
        let lists = [Calls::all().verb(Verb::List), Calls::all().verb(Verb::Watch)];
        let calls = lists.iter().flat_map(|calls| recording.matching(calls));
        let mut resources: Vec<_> =
            calls.map(|call| format!("{call:?}").split(['/', '?', ' ']).nth(1).unwrap().to_owned()).collect();
        resources.sort();
        resources.dedup();
        resources
    };
    let controller = run(&cluster);
    settle().await;
    assert_eq!(watched(), ["resourcequotas"]);
    cluster.create(&quota("q", json!({"configmaps": "5", "count/jobs.batch": "2", "pods": "1"}))).await;
    uses(&cluster, "q", json!({"configmaps": "0", "count/jobs.batch": "0", "pods": "0"})).await;
    assert_eq!(watched(), ["configmaps", "jobs", "pods", "resourcequotas"]);

    cluster.patch("ResourceQuota", "default/q", json!({"spec": {"hard": {"configmaps": null}}})).await;
    uses(&cluster, "q", json!({"count/jobs.batch": "0", "pods": "0"})).await;
    recording.clear();
    // A watch that was given up does not come back when it breaks.
    cluster.server.faults().cut_watches(Calls::all());
    settle().await;
    assert_eq!(watched(), ["jobs", "pods", "resourcequotas"]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_does_not_list_keeps_its_figures_and_stops_no_other() {
    let cluster = Cluster::start().await;
    let mut sick = quota("sick", json!({"configmaps": "5", "pods": "5"}));
    sick["status"] =
        json!({"hard": {"configmaps": "5", "pods": "5"}, "used": {"configmaps": "4", "pods": "4"}});
    cluster.create(&sick).await;
    cluster.create(&quota("well", json!({"secrets": "5", "pods": "5"}))).await;
    let lists = [Verb::List, Verb::Watch].map(|verb| Calls::to("configmaps").verb(verb));
    lists
        .into_iter()
        .for_each(|calls| cluster.server.faults().fail(usize::MAX, calls, Failure::InternalError));
    let controller = run(&cluster);
    uses(&cluster, "well", json!({"secrets": "0", "pods": "0"})).await;
    uses(&cluster, "sick", json!({"configmaps": "4", "pods": "0"})).await;
    cluster.create(&pod("a").build()).await;
    cluster.delete("Pod", "default/a").await;
    uses(&cluster, "well", json!({"secrets": "0", "pods": "0"})).await;
    cluster.server.faults().clear();
    uses(&cluster, "sick", json!({"configmaps": "0", "pods": "0"})).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_can_not_be_read_keeps_the_figures_of_its_kind() {
    let cluster = Cluster::start().await;
    for name in ["good", "bad"] {
        cluster.create(&pod(name).build()).await;
    }
    let mut old = quota("q", json!({"secrets": "5", "pods": "5"}));
    old["status"] = json!({"hard": {"secrets": "5", "pods": "5"}, "used": {"secrets": "4", "pods": "4"}});
    cluster.create(&old).await;
    for verb in [Verb::List, Verb::Watch] {
        cluster.server.faults().spoil(Calls::to("pods").verb(verb), "bad");
    }
    let controller = run(&cluster);
    uses(&cluster, "q", json!({"secrets": "0", "pods": "4"})).await;
    settle().await;
    assert_eq!(used(&cluster, "q"), json!({"secrets": "0", "pods": "4"}));
    cluster.server.faults().clear();
    cluster.server.faults().cut_watches(Calls::to("pods"));
    settle().await;
    cluster.patch("Pod", "default/bad", json!({"metadata": {"labels": {"now": "readable"}}})).await;
    uses(&cluster, "q", json!({"secrets": "0", "pods": "2"})).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_should_have_gone_counts_no_more_as_soon_as_it_is_overdue() {
    let cluster = Cluster::start().await;
    let controller = run(&cluster);
    cluster.create(&quota("q", json!({"pods": "5", "count/pods": "5"}))).await;
    uses(&cluster, "q", json!({"pods": "0", "count/pods": "0"})).await;
    let kept = pod("kept").with(json!({
        "metadata": {"finalizers": ["example.com/kept"]}, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 60},
    }));
    cluster.create(&kept.phase("Running").build()).await;
    uses(&cluster, "q", json!({"pods": "1", "count/pods": "1"})).await;
    let deleted = cluster.server.clock().now();
    cluster.delete("Pod", "default/kept").await;
    uses(&cluster, "q", json!({"pods": "1", "count/pods": "1"})).await;
    let is_off = || (used(&cluster, "q") == json!({"pods": "0", "count/pods": "1"})).then_some(());
    eventually("the pod counts no more", is_off).await;
    let after = Time::from(cluster.server.clock().now()).seconds() - Time::from(deleted).seconds();
    // The deletion timestamp lies the grace period ahead, and the grace period counts once more.
    assert!((120..=122).contains(&after), "{after}");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_overdue_pod_that_is_there_at_the_start_is_noticed_when_its_time_comes() {
    let cluster = Cluster::start().await;
    let kept = pod("kept").with(json!({
        "metadata": {"finalizers": ["example.com/kept"]}, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 60},
    }));
    cluster.create(&kept.phase("Running").build()).await;
    cluster.delete("Pod", "default/kept").await;
    cluster.create(&quota("q", json!({"pods": "5"}))).await;
    let controller = run(&cluster);
    uses(&cluster, "q", json!({"pods": "1"})).await;
    eventually("the pod counts no more", || (used(&cluster, "q") == json!({"pods": "0"})).then_some(()))
        .await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn figures_that_were_counted_on_a_cache_that_lags_are_corrected_at_rest() {
    let cluster = Cluster::start().await;
    let controller = run(&cluster);
    cluster.create(&quota("q", json!({"pods": "5", "secrets": "5"}))).await;
    uses(&cluster, "q", json!({"pods": "0", "secrets": "0"})).await;
    cluster.create(&object("Secret", "s")).await;
    uses(&cluster, "q", json!({"pods": "0", "secrets": "1"})).await;
    cluster.server.faults().delay_watches(Calls::to("pods").verb(Verb::Watch), Duration::from_secs(3));
    cluster.create(&pod("late").build()).await;
    // The count that the deletion causes does not see the pod, which admission has charged.
    cluster.delete("Secret", "default/s").await;
    uses(&cluster, "q", json!({"pods": "0", "secrets": "0"})).await;
    uses(&cluster, "q", json!({"pods": "1", "secrets": "0"})).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_charge_for_an_object_that_was_not_created_is_taken_back_at_rest() {
    let cluster = Cluster::start().await;
    let controller = run(&cluster);
    cluster.create(&quota("q", json!({"pods": "5"}))).await;
    uses(&cluster, "q", json!({"pods": "0"})).await;
    cluster.patch_status("ResourceQuota", "default/q", json!({"used": {"pods": "3"}})).await;
    uses(&cluster, "q", json!({"pods": "0"})).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resync_counts_all_quotas_and_a_period_of_zero_means_never() {
    for (period, counts) in [(Duration::from_secs(90), 10), (Duration::ZERO, 0)] {
        let cluster = Cluster::start().await;
        cluster.create(&quota("q", json!({"pods": "5"}))).await;
        let options = ResourceQuotaOptions { sync_period: period, ..ResourceQuotaOptions::default() };
        let controller = cluster.run_with(construct, OptionSet::default().with(options));
        uses(&cluster, "q", json!({"pods": "0"})).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let before = queued(&controller);
        tokio::time::sleep(Duration::from_secs(900)).await;
        assert_eq!(queued(&controller) - before, counts, "{period:?}");
        controller.stop().await;
    }
}

/// How many keys the primary queue has had so far.
fn queued(controller: &Running) -> u64 {
    let families = controller.metrics.gather();
    let adds = families.iter().filter(|family| family.name() == "workqueue_adds_total");
    let mut adds = adds.flat_map(|family| family.get_metric());
    let primary = adds.find(|metric| metric.get_label()[0].value() == "resourcequota_primary");
    primary.unwrap().get_counter().get_value().to_string().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_write_that_conflicts_waits_for_the_cache_and_loses_no_charge() {
    let cluster = Cluster::start().await;
    let controller = run(&cluster);
    cluster.create(&pod("a").build()).await;
    cluster.create(&quota("q", json!({"pods": "5", "secrets": "5"}))).await;
    uses(&cluster, "q", json!({"pods": "1", "secrets": "0"})).await;
    settle().await;
    let watch = Calls::to("resourcequotas").verb(Verb::Watch);
    cluster.server.faults().delay_watches(watch, Duration::from_secs(30));
    cluster.create(&object("Secret", "s")).await;
    let recording = cluster.server.record();
    cluster.delete("Pod", "default/a").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(used(&cluster, "q"), json!({"pods": "1", "secrets": "1"}), "the cache lacks the charge");
    assert_eq!(recording.count(&status_writes()), 1, "one attempt");
    uses(&cluster, "q", json!({"pods": "0", "secrets": "1"})).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_an_admission_webhook_refuses_as_a_conflict_is_made_again() {
    let cluster = Cluster::start().await;
    let controller = run(&cluster);
    let conflict = Status::failure(409, "Conflict", "a webhook refuses this".to_owned());
    cluster.server.faults().fail(1, status_writes(), Failure::Status(Box::new(conflict)));
    cluster.create(&quota("q", json!({"pods": "5"}))).await;
    uses(&cluster, "q", json!({"pods": "0"})).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_counted_from_their_definition_on() {
    let cluster = Cluster::start().await;
    let controller = run(&cluster);
    cluster.create(&quota("q", json!({"count/widgets.example.com": "5", "pods": "5"}))).await;
    uses(&cluster, "q", json!({"pods": "0"})).await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    create(&cluster, "apiextensions.k8s.io", "v1", "CustomResourceDefinition", &definition).await;
    uses(&cluster, "q", json!({"count/widgets.example.com": "0", "pods": "0"})).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}});
    create(&cluster, "example.com", "v1", "Widget", &widget).await;
    uses(&cluster, "q", json!({"count/widgets.example.com": "1", "pods": "0"})).await;
    let widgets = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets: kube::Api<DynamicObject> =
        kube::Api::namespaced_with(cluster.server.in_memory_client(), "default", &widgets);
    widgets.delete("w", &DeleteParams::default()).await.unwrap();
    uses(&cluster, "q", json!({"count/widgets.example.com": "0", "pods": "0"})).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn devices_count_for_extended_resources_once_a_class_stands_for_them() {
    let cluster = Cluster::start().await;
    let controller = run(&cluster);
    cluster
        .create(&quota(
            "q",
            json!({"requests.example.com/gpu": "9", "gpu.deviceclass.resource.k8s.io/devices": "9"}),
        ))
        .await;
    let zero = json!({"requests.example.com/gpu": "0", "gpu.deviceclass.resource.k8s.io/devices": "0"});
    uses(&cluster, "q", zero).await;
    let devices = json!({"requests": [{"name": "r", "exactly": {
        "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3,
    }}]});
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": devices},
    });
    create(&cluster, "resource.k8s.io", "v1", "ResourceClaim", &claim).await;
    let three = json!({"requests.example.com/gpu": "0", "gpu.deviceclass.resource.k8s.io/devices": "3"});
    uses(&cluster, "q", three).await;
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    });
    create(&cluster, "resource.k8s.io", "v1", "DeviceClass", &class).await;
    let both = json!({"requests.example.com/gpu": "3", "gpu.deviceclass.resource.k8s.io/devices": "3"});
    uses(&cluster, "q", both).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn devices_of_a_claim_that_was_made_for_a_pod_count_once() {
    let cluster = Cluster::start().await;
    let controller = run(&cluster);
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    });
    create(&cluster, "resource.k8s.io", "v1", "DeviceClass", &class).await;
    cluster.create(&quota("q", json!({"requests.example.com/gpu": "9"}))).await;
    uses(&cluster, "q", json!({"requests.example.com/gpu": "0"})).await;
    let resources = json!({"requests": {"example.com/gpu": "2"}, "limits": {"example.com/gpu": "2"}});
    let spec = json!({"containers": [{"name": "c", "image": "i", "resources": resources}]});
    cluster.create(&pod("p").spec(spec).build()).await;
    uses(&cluster, "q", json!({"requests.example.com/gpu": "2"})).await;
    let uid = cluster.peek("pods", "default/p")["metadata"]["uid"].clone();
    let claim = |name: &str, uid: &Value, devices: i64| {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true});
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {
                "name": name, "namespace": "default", "ownerReferences": [owner],
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            },
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {
                "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": devices,
            }}]}},
        })
    };
    // The pod asks for two of the three.
    create(&cluster, "resource.k8s.io", "v1", "ResourceClaim", &claim("b", &uid, 3)).await;
    uses(&cluster, "q", json!({"requests.example.com/gpu": "3"})).await;
    // Another pod's, and a second one for this pod, which only the first can be.
    create(&cluster, "resource.k8s.io", "v1", "ResourceClaim", &claim("c", &json!("other"), 1)).await;
    uses(&cluster, "q", json!({"requests.example.com/gpu": "4"})).await;
    create(&cluster, "resource.k8s.io", "v1", "ResourceClaim", &claim("d", &uid, 2)).await;
    uses(&cluster, "q", json!({"requests.example.com/gpu": "6"})).await;
    // The pod names its claim.
    let named = json!({"extendedResourceClaimStatus": {"resourceClaimName": "d", "requestMappings": []}});
    cluster.patch_status("Pod", "default/p", named).await;
    uses(&cluster, "q", json!({"requests.example.com/gpu": "6"})).await;
    let claims = ApiResource::from_gvk(&GroupVersionKind::gvk("resource.k8s.io", "v1", "ResourceClaim"));
    let claims: kube::Api<DynamicObject> =
        kube::Api::namespaced_with(cluster.server.in_memory_client(), "default", &claims);
    claims.delete("b", &DeleteParams::default()).await.unwrap();
    uses(&cluster, "q", json!({"requests.example.com/gpu": "3"})).await;
    controller.stop().await;
}

/// Creates an object of any group.
async fn create(cluster: &Cluster, group: &str, version: &str, kind: &str, object: &Value) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let client = cluster.server.in_memory_client();
    let api: kube::Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => kube::Api::namespaced_with(client, namespace, &resource),
        None => kube::Api::all_with(client, &resource),
    };
    api.create(&PostParams::default(), &serde_json::from_value(object.clone()).unwrap()).await.unwrap();
}

/// The amounts of a status, by value.
fn amounts(list: &Value) -> BTreeMap<String, Quantity> {
    let all = list.as_object().into_iter().flatten();
    all.map(|(name, amount)| (name.clone(), amount.as_str().unwrap().parse().unwrap())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_quota_whose_status_the_server_does_not_store_is_not_written_for_ever() {
    let cluster = Cluster::start().await;
    let options = ResourceQuotaOptions { sync_period: Duration::ZERO, ..ResourceQuotaOptions::default() };
    let (mut context, writers) = context(&cluster.server, OptionSet::default().with(options));
    let (server, writes) = (cluster.server.in_memory(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&writes);
    // Answers each write of a status with the object as it is.
    context.clients = Clients::over(service_fn(move |mut request: Request<Body>| {
        if let Some(path) = request.uri().path().strip_suffix("/resourcequotas/q/status") {
            counted.fetch_add(1, Ordering::Relaxed);
            *request.uri_mut() = format!("{path}/resourcequotas/q").parse().unwrap();
            *request.method_mut() = Method::GET;
        }
        server.clone().oneshot(request)
    }));
    cluster.create(&quota("q", json!({"secrets": "4"}))).await;
    let controller = cluster.run_in((context, writers), construct);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let writes = writes.load(Ordering::Relaxed);
    assert!((1..5).contains(&writes), "{writes} writes in ten minutes");
    controller.stop().await;
}
