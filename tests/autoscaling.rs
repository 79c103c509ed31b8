//! Replicas set from metrics by the manager, as a process, while a test plays the kubelet and the monitoring systems.
//!
//! The API server sends requests for metrics to the test, by an APIService. The embedded API server has no APIServices, so tests
//! that need metrics run on the real one only.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use support::autoscaling::{
    api, autoscaler, conditions, deployment, deployment_of, has_conditions, has_event, has_replicas,
    replicas, status,
};
use support::managed::Managed;
use support::metrics::{CUSTOM, EXTERNAL, MetricsServer, RESOURCES};
use support::{Cluster, Server, eventually};

const QUICK: &[&str] = &[
    "--controllers=horizontal-pod-autoscaler-controller",
    "--horizontal-pod-autoscaler-sync-period=300ms",
    "--horizontal-pod-autoscaler-downscale-stabilization=0s",
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
];

/// A cluster with a manager, and with metrics if it is a real one.
struct Scene {
    managed: Managed,
    metrics: MetricsServer,
}

impl Scene {
    /// `None` on the embedded API server, which has no APIServices.
    async fn with_metrics() -> Option<Self> {
        let cluster = Cluster::start_alone().await;
        if matches!(cluster.server, Server::Embedded(_)) {
            println!("skipped: the embedded API server has no APIServices");
            return None;
        }
        let metrics = MetricsServer::start().await;
        for api in [RESOURCES, CUSTOM, EXTERNAL] {
            metrics.register(&cluster.client(), &cluster.namespace, api).await;
        }
        Some(Self { managed: Managed::on(cluster, QUICK), metrics })
    }

    fn namespace(&self) -> &str {
        &self.managed.cluster.namespace
    }
}

const GOT_SCALE: (&str, &str, &str, &str) = (
    "AbleToScale",
    "True",
    "SucceededGetScale",
    "the HPA controller was able to get the target's current scale",
);
const READY: (&str, &str, &str, &str) =
    ("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size");
const WITHIN: (&str, &str, &str, &str) =
    ("ScalingLimited", "False", "DesiredWithinRange", "the desired count is within the acceptable range");

fn found(name: &str) -> String {
    format!("the HPA was able to successfully calculate a replica count from {name}")
}

#[tokio::test]
async fn replicas_follow_every_kind_of_metric() {
    let Some(scene) = Scene::with_metrics().await else { return };
    let (client, namespace) = (&scene.managed.client, scene.namespace());
    let used = json!({"main": {"cpu": "90m", "memory": "60Mi"}, "side": {"cpu": "30m", "memory": "20Mi"}});
    let mut pods = Vec::new();
    let names = [
        "percent",
        "average",
        "memory",
        "container",
        "pods",
        "object",
        "value",
        "external",
        "whole",
        "several",
    ];
    for name in names {
        deployment(client, name, 2).await;
        pods.extend([format!("{name}-0"), format!("{name}-1")]);
    }
    let pods: Vec<(&str, Value)> = pods.iter().map(|pod| (pod.as_str(), used.clone())).collect();
    scene.metrics.usage(namespace, &pods);
    scene.metrics.custom(namespace, "pods/*", "Pod", "jobs", &[("pods-0", "7"), ("pods-1", "8")]);
    scene.metrics.custom(namespace, "services/front", "Service", "requests", &[("front", "30500m")]);
    scene.metrics.custom(namespace, "metrics", "Namespace", "load", &[(namespace, "9")]);
    scene.metrics.external(namespace, "queue", &["12", "8500m"]);
    let utilization = |percent| json!({"type": "Utilization", "averageUtilization": percent});
    let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]}]});
    let text = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:c,Operator:In,Values:[d e],},},}";
    let service = json!({"kind": "Service", "name": "front", "apiVersion": "v1"});
    let this = json!({"kind": "Namespace", "name": "front", "apiVersion": "v1"});
    // Each metric, the replicas that it calls for, its name, and what the status says of it.
    let cases = [
        (
            "percent",
            json!({"type": "Resource", "resource": {"name": "cpu", "target": utilization(40)}}),
            3,
            "cpu resource utilization (percentage of request)".to_owned(),
            json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 60, "averageValue": "120m"}}}),
        ),
        (
            "average",
            json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "70m"}}}),
            4,
            "cpu resource".to_owned(),
            json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "120m"}}}),
        ),
        (
            "memory",
            json!({"type": "Resource", "resource": {"name": "memory", "target": utilization(80)}}),
            1,
            "memory resource utilization (percentage of request)".to_owned(),
            json!({"type": "Resource", "resource": {"name": "memory", "current": {"averageUtilization": 40, "averageValue": "80Mi"}}}),
        ),
        (
            "container",
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "main", "target": utilization(45)}}),
            4,
            "cpu container resource utilization (percentage of request)".to_owned(),
            json!({"type": "ContainerResource", "containerResource": {
                "name": "cpu", "container": "main", "current": {"averageUtilization": 90, "averageValue": "90m"}}}),
        ),
        (
            "pods",
            json!({"type": "Pods", "pods": {"metric": {"name": "jobs", "selector": selector}, "target": {"type": "AverageValue", "averageValue": "5"}}}),
            3,
            "pods metric jobs".to_owned(),
            json!({"type": "Pods", "pods": {"metric": {"name": "jobs", "selector": selector}, "current": {"averageValue": "7500m"}}}),
        ),
        (
            "object",
            json!({"type": "Object", "object": {"describedObject": service, "metric": {"name": "requests"}, "target": {"type": "AverageValue", "averageValue": "10"}}}),
            4,
            "external metric requests(nil)".to_owned(),
            json!({"type": "Object", "object": {"describedObject": service, "metric": {"name": "requests"}, "current": {"averageValue": "15250m"}}}),
        ),
        (
            "value",
            json!({"type": "Object", "object": {"describedObject": this, "metric": {"name": "load"}, "target": {"type": "Value", "value": "6"}}}),
            3,
            "Namespace metric load".to_owned(),
            json!({"type": "Object", "object": {"describedObject": this, "metric": {"name": "load"}, "current": {"value": "9"}}}),
        ),
        (
            "external",
            json!({"type": "External", "external": {"metric": {"name": "queue", "selector": selector}, "target": {"type": "AverageValue", "averageValue": "7"}}}),
            3,
            format!("external metric queue({text})"),
            json!({"type": "External", "external": {"metric": {"name": "queue", "selector": selector}, "current": {"averageValue": "10250m"}}}),
        ),
        (
            "whole",
            json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "41"}}}),
            1,
            "external metric queue(nil)".to_owned(),
            json!({"type": "External", "external": {"metric": {"name": "queue"}, "current": {"value": "20500m"}}}),
        ),
    ];
    for (name, metric, ..) in &cases {
        autoscaler(client, name, json!({"minReplicas": 1, "maxReplicas": 9, "metrics": [metric]})).await;
    }
    // The greatest number counts, and metrics that fail do no harm as long as replicas are added.
    let metrics = json!([
        {"type": "Pods", "pods": {"metric": {"name": "unknown"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
        {"type": "Resource", "resource": {"name": "memory", "target": utilization(80)}},
        {"type": "Resource", "resource": {"name": "cpu", "target": utilization(40)}},
    ]);
    autoscaler(client, "several", json!({"maxReplicas": 9, "metrics": metrics})).await;
    for (name, _, wanted, metric, current) in &cases {
        has_replicas(client, name, *wanted).await;
        let reason = match *wanted < 2 {
            true => "All metrics below target".to_owned(),
            false => format!("{metric} above target"),
        };
        has_event(client, name, "SuccessfulRescale", &format!("New size: {wanted}; reason: {reason}")).await;
        let status = eventually("the status", || async {
            let status = status(client, name).await;
            (status["desiredReplicas"] == *wanted && status["lastScaleTime"].is_string()).then_some(status)
        })
        .await;
        assert_eq!(status["currentMetrics"], json!([current]), "{name}");
        assert_eq!(
            conditions(&status)["ScalingActive"],
            ["True".to_owned(), "ValidMetricFound".to_owned(), found(metric)],
            "{name}"
        );
    }
    has_replicas(client, "several", 3).await;
    let why = "unable to get metric unknown: unable to fetch metrics from custom metrics API: the metric is not there";
    has_event(client, "several", "FailedGetPodsMetric", why).await;
    // The second computation is for three replicas of which two have pods.
    let status = eventually("the values of several metrics", || async {
        let status = status(client, "several").await;
        (status["currentReplicas"] == 3).then_some(status)
    })
    .await;
    assert_eq!(status["currentMetrics"][0], json!({"type": ""}));

    let requests = scene.metrics.requests();
    let asked = |text: &str| requests.iter().any(|request| request.contains(text));
    assert!(asked("/pods?labelSelector=app%3Dpercent"), "{requests:?}");
    assert!(
        asked("metricLabelSelector=a%3Db%2Cc+in+%28d%2Ce%29")
            || asked("metricLabelSelector=a%3Db%2Cc%20in%20%28d%2Ce%29"),
        "{requests:?}"
    );
}

#[tokio::test]
async fn replicas_keep_within_bounds_and_rates() {
    let Some(scene) = Scene::with_metrics().await else { return };
    let (client, namespace) = (&scene.managed.client, scene.namespace());
    let names = ["fast", "most", "least", "near", "slow", "kept", "exact"];
    let mut pods = Vec::new();
    for name in names {
        deployment(client, name, 3).await;
        pods.extend((0..3).map(|at| format!("{name}-{at}")));
    }
    let used = json!({"main": {"cpu": "100m"}, "side": {"cpu": "100m"}});
    let pods: Vec<(&str, Value)> = pods.iter().map(|pod| (pod.as_str(), used.clone())).collect();
    scene.metrics.usage(namespace, &pods);
    let target = |percent| json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}]);
    autoscaler(client, "fast", json!({"maxReplicas": 100, "metrics": target(10)})).await;
    autoscaler(client, "most", json!({"maxReplicas": 5, "metrics": target(10)})).await;
    autoscaler(client, "least", json!({"minReplicas": 2, "maxReplicas": 5, "metrics": target(1000)})).await;
    autoscaler(client, "near", json!({"maxReplicas": 5, "metrics": target(95)})).await;
    let pods_per_hour =
        json!({"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 1800}]}});
    autoscaler(client, "slow", json!({"maxReplicas": 100, "metrics": target(10), "behavior": pods_per_hour}))
        .await;
    let never = json!({"scaleDown": {"selectPolicy": "Disabled"}});
    autoscaler(client, "kept", json!({"maxReplicas": 9, "metrics": target(1000), "behavior": never})).await;
    let exact = json!({"scaleUp": {"tolerance": "0.01"}});
    autoscaler(client, "exact", json!({"maxReplicas": 9, "metrics": target(95), "behavior": exact})).await;

    let found = found("cpu resource utilization (percentage of request)");
    let active = ("ScalingActive", "True", "ValidMetricFound", found.as_str());
    let limited = |status, reason, message| ("ScalingLimited", status, reason, message);
    let too_fast = "the desired replica count is increasing faster than the maximum scale rate";
    has_event(
        client,
        "fast",
        "SuccessfulRescale",
        "New size: 6; reason: cpu resource utilization (percentage of request) above target",
    )
    .await;
    // Twice as many at a time.
    has_replicas(client, "most", 5).await;
    let most = limited(
        "True",
        "TooManyReplicas",
        "the desired replica count is more than the maximum replica count",
    );
    has_conditions(client, "most", &[active, most, READY]).await;
    has_replicas(client, "least", 2).await;
    let least =
        limited("True", "TooFewReplicas", "the desired replica count is less than the minimum replica count");
    has_conditions(client, "least", &[active, least, READY]).await;
    has_conditions(client, "near", &[active, WITHIN, READY]).await;
    assert_eq!(replicas(client, "near").await, 3);
    has_replicas(client, "slow", 5).await;
    has_conditions(client, "slow", &[active, limited("True", "ScaleUpLimit", too_fast), READY]).await;
    assert_eq!(replicas(client, "slow").await, 5);
    let too_fast = "the desired replica count is decreasing faster than the maximum scale rate";
    has_conditions(client, "kept", &[active, limited("True", "ScaleDownLimit", too_fast), READY]).await;
    has_replicas(client, "exact", 4).await;
}

#[tokio::test]
async fn what_goes_wrong_is_told() {
    let managed = Managed::start(QUICK).await;
    let client = &managed.client;
    if matches!(managed.cluster.server, Server::Real(_)) {
        for api in [RESOURCES, CUSTOM, EXTERNAL] {
            MetricsServer::unregister(client, api).await;
        }
    }
    for name in ["plain", "first", "zero", "above", "below", "kinds"] {
        deployment(client, name, 2).await;
    }
    let target = |kind: &str, name: &str| json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": name}, "maxReplicas": 3});
    autoscaler(client, "plain", json!({"maxReplicas": 3})).await;
    autoscaler(client, "lost", json!({"maxReplicas": 3})).await;
    autoscaler(client, "odd", target("Oddity", "plain")).await;
    autoscaler(client, "first", json!({"maxReplicas": 3})).await;
    autoscaler(client, "second", target("Deployment", "first")).await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
    api(client, "apps/v1", "Deployment").patch("zero", &PatchParams::default(), &patch).await.unwrap();
    autoscaler(client, "zero", json!({"maxReplicas": 3})).await;
    autoscaler(client, "above", json!({"maxReplicas": 1})).await;
    autoscaler(client, "below", json!({"minReplicas": 3, "maxReplicas": 3})).await;
    let custom = json!([
        {"type": "Pods", "pods": {"metric": {"name": "jobs"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
        {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "5"}}},
    ]);
    autoscaler(client, "kinds", json!({"maxReplicas": 3, "metrics": custom})).await;

    let missing = "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)";
    let message = format!("the HPA was unable to compute the replica count: {missing}");
    let inactive = ("ScalingActive", "False", "FailedGetResourceMetric", message.as_str());
    let plain = has_conditions(client, "plain", &[GOT_SCALE, inactive]).await;
    assert_eq!((&plain["currentReplicas"], &plain["desiredReplicas"]), (&json!(2), &json!(0)));
    assert_eq!(plain["currentMetrics"], json!([{"type": ""}]));
    has_event(client, "plain", "FailedGetResourceMetric", missing).await;
    let all = format!(
        "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {missing}"
    );
    has_event(client, "plain", "FailedComputeMetricsReplicas", &all).await;

    let lost = "deployments.apps \"lost\" not found";
    let message = format!("the HPA controller was unable to get the target's current scale: {lost}");
    has_conditions(client, "lost", &[("AbleToScale", "False", "FailedGetScale", &message)]).await;
    has_event(client, "lost", "FailedGetScale", lost).await;
    let odd = "no matches for kind \"Oddity\" in group \"apps\"";
    let message = format!("the HPA controller was unable to get the target's current scale: {odd}");
    has_conditions(client, "odd", &[("AbleToScale", "False", "FailedGetScale", &message)]).await;

    // Upstream names the autoscalers in no order.
    let told = eventually("two autoscalers of the same pods", || async {
        let found = conditions(&status(client, "second").await).remove("ScalingActive")?;
        (found[1] == "AmbiguousSelector").then_some(found)
    })
    .await;
    let namespace = &managed.cluster.namespace;
    let message = |first: &str, second: &str| {
        format!(
            "pods by selector app=first are controlled by multiple HPAs: [{namespace}/{first} {namespace}/{second}]"
        )
    };
    assert!(told[2] == message("first", "second") || told[2] == message("second", "first"), "{told:?}");

    let disabled = "scaling is disabled since the replica count of the target is zero";
    let disabled = ("ScalingActive", "False", "ScalingDisabled", disabled);
    has_conditions(client, "zero", &[GOT_SCALE, disabled]).await;
    // Of two Deployments with the same pods, the one without replicas does not stand in the way of the other.
    deployment(client, "green", 2).await;
    deployment_of(client, "blue", "green", 0).await;
    autoscaler(client, "blue", json!({"maxReplicas": 3})).await;
    has_conditions(client, "blue", &[GOT_SCALE, disabled]).await;
    autoscaler(client, "green", json!({"maxReplicas": 3})).await;
    has_conditions(client, "green", &[GOT_SCALE, inactive]).await;
    has_replicas(client, "above", 1).await;
    has_event(
        client,
        "above",
        "SuccessfulRescale",
        "New size: 1; reason: Current number of replicas above Spec.MaxReplicas",
    )
    .await;
    has_replicas(client, "below", 3).await;
    has_event(
        client,
        "below",
        "SuccessfulRescale",
        "New size: 3; reason: Current number of replicas below Spec.MinReplicas",
    )
    .await;
    let jobs = "unable to get metric jobs: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered";
    let message = format!("the HPA was unable to compute the replica count: {jobs}");
    has_conditions(
        client,
        "kinds",
        &[GOT_SCALE, ("ScalingActive", "False", "FailedGetPodsMetric", &message)],
    )
    .await;
    let name = format!("{namespace}/queue/nil");
    let queue = format!(
        "unable to get external metric {name}: unable to fetch metrics from external metrics API: the server could not find the requested resource (get queue.external.metrics.k8s.io)"
    );
    has_event(client, "kinds", "FailedGetExternalMetric", &queue).await;
}
