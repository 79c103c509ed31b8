//! Autoscaling on simulated usage.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Standalone, client, rolled_out, web};
use support::eventually;
use support::kubectl::Kubectl;

/// Sets what each pod of the Deployment `web` uses.
async fn set_usage(pods: &Api<Pod>, cpu_millis: u32) {
    let annotations = json!({
        "simulated.steersman.io/cpu-millis": cpu_millis.to_string(), "simulated.steersman.io/memory-bytes": "52428800",
    });
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    for pod in pods.list(&ListParams::default().labels("app=web")).await.unwrap().items {
        pods.patch(&pod.metadata.name.unwrap(), &PatchParams::default(), &patch).await.unwrap();
    }
}

/// Waits until the Deployment `web` wants this number of replicas. An autoscaler acts once in 15 seconds.
async fn has_replicas(deployments: &Api<Deployment>, wanted: i32) {
    let replicas = || async {
        let spec = deployments.get("web").await.ok()?.spec?;
        (spec.replicas == Some(wanted)).then_some(())
    };
    eventually(&format!("web has {wanted} replicas"), replicas).await;
}

#[tokio::test]
async fn an_autoscaler_follows_the_usage_that_annotations_say() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut all = Standalone::start(&data).await;
    let client = client(&data).await;
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    let pods = Api::<Pod>::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &web().0).await.unwrap();
    rolled_out(&deployments).await;
    // Pods that no annotation speaks of use nothing.
    let path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dweb";
    let list: Value = client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
    assert_eq!(
        list["items"][0]["containers"],
        json!([{"name": "main", "usage": {"cpu": "0", "memory": "0"}}])
    );

    set_usage(&pods, 900).await;
    if let Some(kubectl) = Kubectl::find(&data.join("kubeconfig"), "default") {
        let top = kubectl.run("top pods --no-headers").await;
        let rows: Vec<Vec<&str>> =
            top.lines().map(|line| line.split_whitespace().skip(1).collect()).collect();
        assert_eq!(rows, [["900m", "50Mi"]; 3], "{top}");
        let top = kubectl.run("top pods --containers -l app=web --sum --no-headers").await;
        let sum: Vec<&str> = top.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(sum, ["2700m", "150Mi"], "{top}");
        let top = kubectl.run("top nodes --no-headers").await;
        let row: Vec<&str> = top.split_whitespace().collect();
        assert_eq!((row[0], row[1], row[3]), ("n", "2700m", "150Mi"), "{top}");
        let table = kubectl.run("get pods.metrics.k8s.io").await;
        let heads: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(heads, ["NAME", "CPU", "MEMORY", "WINDOW"], "{table}");
        // The name alone means the pods themselves.
        assert!(kubectl.run("get pods").await.contains("Running"));
        assert!(kubectl.run("api-resources --api-group=metrics.k8s.io").await.contains("NodeMetrics"));
    }

    let autoscalers = Api::<HorizontalPodAutoscaler>::default_namespaced(client.clone());
    let autoscaler = json!({
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2, "maxReplicas": 6,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "500m"}}}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    });
    autoscalers.create(&PostParams::default(), &serde_json::from_value(autoscaler).unwrap()).await.unwrap();
    has_replicas(&deployments, 6).await;
    set_usage(&pods, 10).await;
    has_replicas(&deployments, 2).await;
    let status = autoscalers.get("web").await.unwrap().status.unwrap();
    let conditions = status.conditions.unwrap_or_default();
    assert!(
        conditions.iter().any(|one| one.type_ == "ScalingActive" && one.status == "True"),
        "{conditions:?}"
    );
    assert!(all.stop().await.success());
}
