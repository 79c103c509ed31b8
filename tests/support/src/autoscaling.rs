//! Autoscalers with their targets. The test plays the controller of Deployments and the kubelet.

use std::collections::BTreeMap;

use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use steersman_api::Time;

use super::eventually;

pub fn api(client: &kube::Client, api_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::default_namespaced_with(client.clone(), &resource)
}

pub async fn create(client: &kube::Client, object: Value) {
    let api = api(client, object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let mut typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    typed.data.as_object_mut().unwrap().remove("status");
    api.create(&PostParams::default(), &typed).await.unwrap();
    if let Some(status) = object.get("status") {
        let name = object["metadata"]["name"].as_str().unwrap();
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
}

/// Creates a Deployment with this number of replicas, which are ready and request 100m of processors and 100Mi of memory.
pub async fn deployment(client: &kube::Client, name: &str, replicas: usize) {
    deployment_of(client, name, name, replicas).await;
}

/// As [`deployment`], with the label `app` of another one.
pub async fn deployment_of(client: &kube::Client, name: &str, app: &str, replicas: usize) {
    let labels = json!({"app": app});
    let requests = json!({"cpu": "100m", "memory": "100Mi"});
    let containers = json!([
        {"name": "main", "image": "i", "resources": {"requests": requests}},
        {"name": "side", "image": "i", "resources": {"requests": requests}},
    ]);
    create(
        client,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            },
            "status": {"replicas": replicas},
        }),
    )
    .await;
    for at in 0..replicas {
        pod(client, app, &format!("{name}-{at}"), &containers).await;
    }
}

async fn pod(client: &kube::Client, app: &str, name: &str, containers: &Value) {
    let since = Time::from_seconds(Time::now().seconds() - 7200);
    create(
        client,
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"containers": containers},
            "status": {
                "phase": "Running", "startTime": since,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
            },
        }),
    )
    .await;
}

/// Creates an autoscaler of the Deployment of its name.
pub async fn autoscaler(client: &kube::Client, name: &str, spec: Value) {
    let mut manifest = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
    });
    manifest["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    create(client, manifest).await;
}

pub async fn replicas(client: &kube::Client, name: &str) -> i64 {
    api(client, "apps/v1", "Deployment").get(name).await.unwrap().data["spec"]["replicas"].as_i64().unwrap()
}

pub async fn has_replicas(client: &kube::Client, name: &str, wanted: i64) {
    eventually(&format!("{name} has {wanted} replicas"), || async {
        (replicas(client, name).await == wanted).then_some(())
    })
    .await;
}

pub async fn status(client: &kube::Client, name: &str) -> Value {
    let found = api(client, "autoscaling/v2", "HorizontalPodAutoscaler").get(name).await.unwrap();
    found.data.get("status").cloned().unwrap_or_default()
}

/// The conditions by type: status, reason and message.
pub fn conditions(status: &Value) -> BTreeMap<String, [String; 3]> {
    let text = |condition: &Value, name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    let each = status["conditions"].as_array().into_iter().flatten();
    each.map(|one| (text(one, "type"), ["status", "reason", "message"].map(|name| text(one, name)))).collect()
}

/// Waits until an autoscaler has exactly these conditions.
pub async fn has_conditions(client: &kube::Client, name: &str, wanted: &[(&str, &str, &str, &str)]) -> Value {
    let texts = |&(kind, status, reason, message): &(&str, &str, &str, &str)| {
        (kind.to_owned(), [status, reason, message].map(str::to_owned))
    };
    let wanted: BTreeMap<_, _> = wanted.iter().map(texts).collect();
    let last = parking_lot::Mutex::new(Value::Null);
    let wait = eventually("conditions", || async {
        let status = status(client, name).await;
        *last.lock() = status.clone();
        (conditions(&status) == wanted).then_some(status)
    });
    let guard = Told(&last, name, &wanted);
    let found = wait.await;
    std::mem::forget(guard);
    found
}

/// Tells what was found last, if the wait ends in vain.
struct Told<'a>(&'a parking_lot::Mutex<Value>, &'a str, &'a BTreeMap<String, [String; 3]>);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        println!("{} has {:#?}, and not {:#?}", self.1, self.0.lock(), self.2);
    }
}

/// Waits for an event about an autoscaler.
pub async fn has_event(client: &kube::Client, name: &str, reason: &str, message: &str) {
    let events = api(client, "v1", "Event");
    eventually(&format!("{reason}: {message}"), || async {
        let list = events.list(&ListParams::default()).await.ok()?;
        let is_it = |event: &DynamicObject| {
            event.data["involvedObject"]["name"] == name
                && event.data["source"]["component"] == "horizontal-pod-autoscaler"
                && event.data["reason"] == reason
                && event.data["message"] == message
        };
        list.items.iter().any(is_it).then_some(())
    })
    .await;
}
