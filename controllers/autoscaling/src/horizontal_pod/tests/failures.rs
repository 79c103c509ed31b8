//! What is said of metrics that can't be read.

use serde_json::{Value, json};
use steersman_informer::wire::FieldValue;
use steersman_kinds::horizontal_pod_autoscaler::MetricSpec;

use super::super::metric::{Failure, Setting, evaluate};
use super::super::metrics_api::Reading;
use super::scenes::{pods, scene};

fn failure(metric: Value, reading: Result<&Reading, &str>) -> Failure {
    let pods = pods(&[|pod| pod, |pod| pod]);
    let setting = Setting { namespace: "ns", scene: scene(2, &pods), counts_pod_level: true };
    evaluate(&MetricSpec::from_json(metric).unwrap(), setting, reading).unwrap_err()
}

#[test]
fn events_conditions_and_errors_say_in_upstreams_words_what_failed() {
    let service = json!({"kind": "Service", "name": "front", "apiVersion": "v1"});
    let named = json!({"name": "m"});
    let [value, average, percent] = [
        json!({"type": "Value", "value": "1"}),
        json!({"type": "AverageValue", "averageValue": "1"}),
        json!({"type": "Utilization", "averageUtilization": 50}),
    ];
    let object = |target: &Value| json!({"type": "Object", "object": {"describedObject": service, "metric": named, "target": target}});
    let resource =
        |target: &Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    let container = |target: &Value| json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "main", "target": target}});
    let external =
        |target: &Value| json!({"type": "External", "external": {"metric": named, "target": target}});
    let pods = json!({"type": "Pods", "pods": {"metric": named, "target": average}});
    let on_object = "unable to get metric m: down on Service ns/front";
    let of_queue = "unable to get external metric ns/m/nil: down";
    let of_cpu = "unable to get metrics for resource cpu: down";
    let used = format!("failed to get cpu usage: {of_cpu}");
    let utilization = format!("failed to get cpu utilization: {of_cpu}");
    let neither = "neither a value target nor an average value target was set";
    let neither_resource =
        "neither an average utilization target nor an average value (usage) target was set";
    let rows = [
        (
            object(&value),
            "FailedGetObjectMetric",
            on_object.to_owned(),
            format!("failed to get object metric value: {on_object}"),
        ),
        (
            object(&average),
            "FailedGetObjectMetric",
            on_object.to_owned(),
            format!("failed to get object metric value: failed to get m object metric: {on_object}"),
        ),
        (
            object(&percent),
            "FailedGetObjectMetric",
            format!("invalid object metric source: {neither}"),
            format!("failed to get object metric value: invalid object metric source: {neither}"),
        ),
        (
            pods,
            "FailedGetPodsMetric",
            "unable to get metric m: down".to_owned(),
            "failed to get pods metric value: unable to get metric m: down".to_owned(),
        ),
        (
            resource(&average),
            "FailedGetResourceMetric",
            used.clone(),
            format!("failed to get cpu resource metric value: {used}"),
        ),
        (
            resource(&percent),
            "FailedGetResourceMetric",
            utilization.clone(),
            format!("failed to get cpu resource metric value: {utilization}"),
        ),
        (
            resource(&json!({"type": "Value"})),
            "FailedGetResourceMetric",
            format!("invalid resource metric source: {neither_resource}"),
            format!(
                "failed to get cpu resource metric value: invalid resource metric source: {neither_resource}"
            ),
        ),
        (
            container(&average),
            "FailedGetContainerResourceMetric",
            used.clone(),
            format!("failed to get main container metric value: {used}"),
        ),
        (
            container(&percent),
            "FailedGetContainerResourceMetric",
            utilization.clone(),
            format!("failed to get main container metric value: {utilization}"),
        ),
        (
            external(&value),
            "FailedGetExternalMetric",
            of_queue.to_owned(),
            format!("failed to get m external metric value: failed to get external metric m: {of_queue}"),
        ),
        (
            external(&average),
            "FailedGetExternalMetric",
            of_queue.to_owned(),
            format!("failed to get m external metric value: failed to get m external metric: {of_queue}"),
        ),
        (
            external(&percent),
            "FailedGetExternalMetric",
            format!("invalid external metric source: {neither}"),
            format!("failed to get m external metric value: invalid external metric source: {neither}"),
        ),
    ];
    for (metric, reason, message, error) in rows {
        let expected = Failure { reason, message, error, is_spec: false };
        assert_eq!(failure(metric.clone(), Err("down")), expected, "{metric}");
    }
}

#[test]
fn a_selector_that_makes_no_sense_is_a_failure_of_its_metric() {
    let odd = json!({"matchExpressions": [{"key": "a", "operator": "Odd"}]});
    let metric = json!({"type": "Pods", "pods": {
        "metric": {"name": "m", "selector": odd}, "target": {"type": "AverageValue", "averageValue": "1"},
    }});
    let found = failure(metric, Err("the metric can't be read"));
    assert_eq!(found.reason, "FailedGetPodsMetric");
    assert_eq!(found.error, format!("failed to get pods metric value: {}", found.message));
    assert!(found.message.contains("Odd"), "{}", found.message);
}

#[test]
fn an_external_sum_below_zero_counts_as_upstream_counts_it() {
    let metric =
        |target: Value| json!({"type": "External", "external": {"metric": {"name": "m"}, "target": target}});
    let pods = pods(&[|pod| pod, |pod| pod]);
    let setting = Setting { namespace: "ns", scene: scene(2, &pods), counts_pod_level: true };
    let reading = Reading::Values(vec![-5_000, 30_000]);
    let replicas = |target: Value| {
        let metric = MetricSpec::from_json(metric(target)).unwrap();
        evaluate(&metric, setting, Ok(&reading)).unwrap().replicas
    };
    assert_eq!(replicas(json!({"type": "Value", "value": "5"})), 10);
    assert_eq!(replicas(json!({"type": "AverageValue", "averageValue": "5"})), i32::MAX);
}
