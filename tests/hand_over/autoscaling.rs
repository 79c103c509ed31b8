//! Autoscalers that go from one manager to the other.

use std::path::Path;

use kube::api::ListParams;
use serde_json::{Value, json};

use support::Cluster;
use support::autoscaling::{api, autoscaler, conditions, deployment, has_replicas, replicas, status};
use support::manager::Manager;
use support::metrics::{MetricsServer, RESOURCES};

/// The flags of both managers, with this sync period.
fn flags(period: &str) -> [String; 4] {
    [
        "--controllers=horizontal-pod-autoscaler-controller".to_owned(),
        format!("--horizontal-pod-autoscaler-sync-period={period}"),
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=1000".to_owned(),
    ]
}

/// Autoscalers handed over from steersman to kube-controller-manager and back: neither writes a status or sets a number of
/// replicas without cause. Windows hold on, and so does the rate of growth as far as the status tells.
pub(super) async fn there_and_back(assets: &Path, cluster: Cluster) {
    let (client, kubeconfig) = (cluster.client(), cluster.kubeconfig());
    let ours = |period: &str| {
        let flags = flags(period);
        Manager::start(&kubeconfig, &flags.each_ref().map(String::as_str))
    };
    let upstream = |period: &str| {
        let flags = flags(period);
        Manager::start_upstream(assets, &kubeconfig, &flags.each_ref().map(String::as_str))
    };
    let metrics = MetricsServer::start().await;
    metrics.register(&client, &cluster.namespace, RESOURCES).await;
    let mut pods = Vec::new();
    for (name, cpu) in [("steady", "50m"), ("held", "10m"), ("fast", "100m")] {
        deployment(&client, name, 3).await;
        let used = json!({"main": {"cpu": cpu}, "side": {"cpu": cpu}});
        pods.extend((0..3).map(|at| (format!("{name}-{at}"), used.clone())));
    }
    let pods: Vec<(&str, Value)> = pods.iter().map(|(pod, used)| (pod.as_str(), used.clone())).collect();
    metrics.usage(&cluster.namespace, &pods);
    let half = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]);
    for name in ["steady", "held"] {
        autoscaler(&client, name, json!({"minReplicas": 1, "maxReplicas": 9, "metrics": half})).await;
    }

    let first = ours("300ms");
    has_reason(&client, "steady", "AbleToScale", "ReadyForNewScale").await;
    has_reason(&client, "held", "AbleToScale", "ScaleDownStabilized").await;
    drop(first);
    let before = state(&client).await;
    let second = upstream("4s");
    one_more(&client, "second").await;
    assert_eq!(left(&state(&client).await, &before), before, "upstream changed what we left");

    let rates = json!({"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 1800}]}});
    let spec = json!({"minReplicas": 1, "maxReplicas": 9, "metrics": half, "behavior": rates});
    autoscaler(&client, "fast", spec).await;
    super::eventually("fast is scaled", || async {
        (status(&client, "fast").await["desiredReplicas"] == 5).then_some(())
    })
    .await;
    // Until its next sync, the status tells how many replicas upstream has added.
    drop(second);
    assert_eq!(
        status(&client, "fast").await["currentReplicas"],
        3,
        "upstream must be stopped before its next sync"
    );

    let before = state(&client).await;
    let third = ours("300ms");
    has_reason(&client, "fast", "ScalingLimited", "ScaleUpLimit").await;
    one_more(&client, "third").await;
    let kept: Vec<String> =
        before.iter().filter(|line| !line.starts_with("autoscaler fast")).cloned().collect();
    assert_eq!(left(&state(&client).await, &before), kept, "we changed what upstream left");
    assert_eq!(replicas(&client, "fast").await, 5);
    drop(third);
    api(&client, "autoscaling/v2", "HorizontalPodAutoscaler")
        .delete("fast", &Default::default())
        .await
        .unwrap();

    let before = state(&client).await;
    let _fourth = upstream("300ms");
    one_more(&client, "fourth").await;
    assert_eq!(left(&state(&client).await, &before), before, "upstream changed what we left");
}

async fn has_reason(client: &kube::Client, name: &str, condition: &str, reason: &str) {
    super::eventually(&format!("{name}: {condition} says {reason}"), || async {
        let found = conditions(&status(client, name).await).remove(condition)?;
        (found[1] == reason).then_some(())
    })
    .await;
}

/// Has the running manager scale one more target. Once it has done that twice, it has also synced the older autoscalers.
async fn one_more(client: &kube::Client, name: &str) {
    for again in ["", "-again"] {
        let name = format!("{name}{again}");
        deployment(client, &name, 1).await;
        autoscaler(client, &name, json!({"minReplicas": 2, "maxReplicas": 9})).await;
        has_replicas(client, &name, 2).await;
    }
}

/// Every autoscaler and Deployment with its version.
async fn state(client: &kube::Client) -> Vec<String> {
    let mut lines = Vec::new();
    for (what, version, kind) in
        [("autoscaler", "autoscaling/v2", "HorizontalPodAutoscaler"), ("deployment", "apps/v1", "Deployment")]
    {
        let all = api(client, version, kind).list(&ListParams::default()).await.unwrap().items;
        let line = |object: &kube::api::DynamicObject| {
            let meta = &object.metadata;
            Some(format!("{what} {} {}", meta.name.as_ref()?, meta.resource_version.as_ref()?))
        };
        // Those that only show that a manager is at work, and stay without metrics.
        let lines_of = all.iter().filter_map(line);
        lines.extend(lines_of.filter(|line| !line.contains("second") && !line.contains("third")));
    }
    lines
}

/// The lines of a state that were there before.
fn left(state: &[String], before: &[String]) -> Vec<String> {
    state.iter().filter(|line| before.contains(line)).cloned().collect()
}
