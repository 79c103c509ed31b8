//! Autoscalers with four metrics each, and their targets.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::metrics::{PODS, app, pod};
use crate::waiting::until;
use crate::{Error, report, workloads};

/// How many targets are created at a time.
const AT_ONCE: usize = 32;

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Creates a number of Deployments with running pods and an autoscaler each, and prints how long that took. No Deployment
/// controller and no kubelet need to run.
pub(crate) async fn create(client: &Client, count: usize, namespaces: usize) -> Result<(), Error> {
    let begun = Instant::now();
    let namespaces = workloads::namespaces(client, namespaces).await?;
    let targets =
        stream::iter(0..count).map(|number| target(client, &namespaces[number % namespaces.len()], number));
    targets.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    report(&format!("{count} autoscalers, created: {:?}", begun.elapsed()));
    Ok(())
}

/// Waits until metrics decide about each autoscaler, and prints how long that took.
pub(crate) async fn active(client: &Client, count: usize, namespaces: usize) -> Result<(), Error> {
    let begun = Instant::now();
    let namespaces = workloads::namespaces(client, namespaces).await?;
    let name = |number: usize| format!("{}/{}", namespaces[number % namespaces.len()], app(number));
    let names: BTreeSet<String> = (0..count).map(name).collect();
    let autoscaler = resource("autoscaling", "v2", "HorizontalPodAutoscaler");
    let is_active = |condition: &Value| condition["type"] == "ScalingActive" && condition["status"] == "True";
    until(client, &autoscaler, names, |found| {
        found.data["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(is_active))
    })
    .await?;
    report(&format!("{count} autoscalers, active: {:?}", begun.elapsed()));
    Ok(())
}

async fn target(client: &Client, namespace: &str, number: usize) -> Result<(), Error> {
    let name = app(number);
    let labels = json!({"app": name});
    let spec = json!({"containers": [{
        "name": "main", "image": "registry.k8s.io/pause:3.9", "resources": {"requests": {"cpu": "100m"}},
    }]});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": PODS, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
        "status": {"replicas": PODS},
    });
    put(client, namespace, &resource("apps", "v1", "Deployment"), deployment).await?;
    for at in 0..PODS {
        let since = "2026-01-01T00:00:00Z";
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod(&name, at), "labels": labels}, "spec": spec,
            "status": {
                "phase": "Running", "startTime": since,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
            },
        });
        put(client, namespace, &resource("", "v1", "Pod"), pod).await?;
    }
    let service = json!({"kind": "Service", "name": "front", "apiVersion": "v1"});
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, "maxReplicas": 9,
            "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                {"type": "Pods", "pods": {"metric": {"name": "jobs"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
                {"type": "Object", "object": {
                    "describedObject": service, "metric": {"name": "requests"}, "target": {"type": "Value", "value": "100"},
                }},
                {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
            ],
        },
    });
    put(client, namespace, &resource("autoscaling", "v2", "HorizontalPodAutoscaler"), autoscaler).await
}

/// Creates an object with its status.
async fn put(
    client: &Client,
    namespace: &str,
    resource: &ApiResource,
    mut object: Value,
) -> Result<(), Error> {
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, resource);
    let status = object.as_object_mut().and_then(|members| members.remove("status"));
    let object: DynamicObject = serde_json::from_value(object).expect("the manifest must be an object");
    api.create(&PostParams::default(), &object).await?;
    if let (Some(status), Some(name)) = (status, &object.metadata.name) {
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}
