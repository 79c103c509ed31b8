use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_kinds::pod::Phase;
use steersman_kinds::pod_resources::{PodAllotment, PodDemand};
use steersman_kinds::shared::Shared;
use steersman_testing::{Pod, pod};

use super::super::Gates;
use super::super::measures::{has_ended, is_best_effort, of_pod, overdue_at};
use super::{GATES, container, text, view};

fn usage_with(pod: Pod, gates: Gates) -> String {
    let pod = view(pod);
    text(&of_pod(pod.get::<Shared<PodDemand>>(), pod.get::<Shared<PodAllotment>>(), gates))
}

fn usage(spec: Value) -> String {
    usage_with(pod("a").spec(spec), GATES)
}

fn requests(name: &str, requests: Value) -> Value {
    container(name, requests, json!({}))
}

fn sidecar(cpu: &str) -> Value {
    let mut sidecar = requests("side", json!({"cpu": cpu}));
    sidecar["restartPolicy"] = "Always".into();
    sidecar
}

#[test]
fn a_pod_counts_under_all_names_of_what_it_asks_for() {
    for (asks, of_it) in [
        (json!({"cpu": "1m"}), "count/pods=1,cpu=1m,pods=1,requests.cpu=1m"),
        (json!({"memory": "1m"}), "count/pods=1,memory=1m,pods=1,requests.memory=1m"),
        (
            json!({"ephemeral-storage": "32Mi"}),
            "count/pods=1,ephemeral-storage=32Mi,pods=1,requests.ephemeral-storage=32Mi",
        ),
        (
            json!({"hugepages-2Mi": "100Mi"}),
            "count/pods=1,hugepages-2Mi=100Mi,pods=1,requests.hugepages-2Mi=100Mi",
        ),
        (json!({"example.com/dongle": "3"}), "count/pods=1,pods=1,requests.example.com/dongle=3"),
        (
            json!({"deviceclass.resource.kubernetes.io/gpu": "3"}),
            "count/pods=1,pods=1,requests.deviceclass.resource.kubernetes.io/gpu=3",
        ),
        (json!({"kubernetes.io/batch-cpu": "3", "requests.example.com/x": "1"}), "count/pods=1,pods=1"),
    ] {
        assert_eq!(usage(json!({"containers": [requests("c", asks.clone())]})), of_it, "{asks}");
        let init = json!({"containers": [], "initContainers": [requests("i", asks.clone())]});
        assert_eq!(usage(init), of_it, "init container: {asks}");
    }
    let limited =
        container("c", json!({}), json!({"cpu": "1", "memory": "2", "ephemeral-storage": "3", "x/y": "4"}));
    assert_eq!(
        usage(json!({"containers": [limited]})),
        "count/pods=1,limits.cpu=1,limits.ephemeral-storage=3,limits.memory=2,pods=1"
    );
}

#[test]
fn a_pod_needs_at_most_what_its_containers_need_at_a_time() {
    let containers = json!([requests("a", json!({"cpu": "1"})), requests("b", json!({"cpu": "500m"}))]);
    for (init, cpu) in [
        (json!([]), "1500m"),
        (json!([requests("i", json!({"cpu": "1"})), requests("j", json!({"cpu": "1"}))]), "1500m"),
        (json!([requests("i", json!({"cpu": "2"}))]), "2"),
        (json!([sidecar("1")]), "2500m"),
        (json!([sidecar("1"), requests("i", json!({"cpu": "2"}))]), "3"),
        (json!([requests("i", json!({"cpu": "2"})), sidecar("1")]), "2500m"),
    ] {
        let spec = json!({"containers": containers, "initContainers": init});
        assert_eq!(usage(spec), format!("count/pods=1,cpu={cpu},pods=1,requests.cpu={cpu}"), "{init}");
    }
    // Init containers need the maximum of each resource by itself.
    let spec = json!({
        "containers": [container("a", json!({"cpu": "1"}), json!({"memory": "2Gi"}))],
        "initContainers": [container("i", json!({"cpu": "100m"}), json!({"memory": "3Gi", "cpu": "5"}))],
    });
    assert_eq!(usage(spec), "count/pods=1,cpu=1,limits.cpu=5,limits.memory=3Gi,pods=1,requests.cpu=1");
}

#[test]
fn overhead_is_added_to_requests_and_to_limits_that_exist() {
    let spec = json!({
        "containers": [container("a", json!({"cpu": "1"}), json!({"cpu": "2", "memory": "0"}))],
        "overhead": {"cpu": "100m", "memory": "64Mi"},
    });
    assert_eq!(
        usage(spec),
        "count/pods=1,cpu=1100m,limits.cpu=2100m,limits.memory=0,memory=64Mi,pods=1,requests.cpu=1100m,\
         requests.memory=64Mi"
    );
}

#[test]
fn what_a_pod_asks_for_as_a_whole_goes_before_what_its_containers_ask_for() {
    let spec = json!({
        "containers": [container("a", json!({"cpu": "1", "ephemeral-storage": "1Gi"}), json!({"cpu": "4"}))],
        "resources": {"requests": {"cpu": "2", "memory": "1Gi", "ephemeral-storage": "9"}, "limits": {"cpu": "3"}},
        "overhead": {"cpu": "500m"},
    });
    assert_eq!(
        usage(spec.clone()),
        "count/pods=1,cpu=2500m,ephemeral-storage=1Gi,limits.cpu=3500m,memory=1Gi,pods=1,requests.cpu=2500m,\
         requests.ephemeral-storage=1Gi,requests.memory=1Gi"
    );
    let without = Gates { pod_level_resources: false, ..GATES };
    assert_eq!(
        usage_with(pod("a").spec(spec), without),
        "count/pods=1,cpu=1500m,ephemeral-storage=1Gi,limits.cpu=4500m,pods=1,requests.cpu=1500m,\
         requests.ephemeral-storage=1Gi"
    );
}

#[test]
fn a_container_that_is_resized_counts_the_most_of_what_it_asks_for_and_what_it_has() {
    let asks = json!({"containers": [container("a", json!({"cpu": "200m"}), json!({"cpu": "1"}))]});
    let has = |allocated: &str, actual: &str, limit: &str| {
        json!([{
            "name": "a", "allocatedResources": {"cpu": allocated},
            "resources": {"requests": {"cpu": actual}, "limits": {"cpu": limit}},
        }])
    };
    let reason = |reason: &str| json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
    for (statuses, conditions, cpu, limit) in [
        (json!([]), json!([]), "200m", "1"),
        (json!([{"name": "a"}]), json!([]), "200m", "1"),
        (has("100m", "100m", "500m"), json!([]), "200m", "1"),
        (has("100m", "300m", "2"), json!([]), "300m", "2"),
        (has("400m", "300m", "2"), reason("Deferred"), "400m", "2"),
        (has("100m", "100m", "500m"), reason("Infeasible"), "100m", "500m"),
        (has("150m", "100m", "500m"), reason("Infeasible"), "150m", "500m"),
    ] {
        let status = json!({"status": {"containerStatuses": statuses, "conditions": conditions}});
        let usage = usage_with(pod("a").spec(asks.clone()).with(status.clone()), GATES);
        let expected = format!("count/pods=1,cpu={cpu},limits.cpu={limit},pods=1,requests.cpu={cpu}");
        assert_eq!(usage, expected, "{status}");
    }
}

#[test]
fn sidecars_can_be_resized_and_other_init_containers_can_not() {
    let has = json!([
        {"name": "side", "resources": {"requests": {"cpu": "3"}}},
        {"name": "setup", "resources": {"requests": {"cpu": "9"}}},
    ]);
    let spec =
        json!({"containers": [], "initContainers": [sidecar("1"), requests("setup", json!({"cpu": "2"}))]});
    let pod = pod("a").spec(spec).with(json!({"status": {"initContainerStatuses": has}}));
    assert_eq!(usage_with(pod, GATES), "count/pods=1,cpu=5,pods=1,requests.cpu=5");
}

#[test]
fn a_pod_counts_until_it_has_ended_or_should_have_gone() {
    let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
    let ended = |pod: Pod| {
        let pod = view(pod);
        has_ended(pod.meta(), pod.get::<Phase>(), now)
    };
    for phase in ["Pending", "Running", "Unknown", ""] {
        assert!(!ended(pod("a").phase(phase)), "{phase}");
    }
    assert!(ended(pod("a").phase("Succeeded")) && ended(pod("a").phase("Failed")));
    for (since, grace, is_over) in [
        ("2026-01-01T00:09:00Z", 59, true),
        ("2026-01-01T00:09:00Z", 60, false),
        ("2026-01-01T00:11:00Z", 0, false),
    ] {
        assert_eq!(ended(pod("a").phase("Running").terminating(since, grace)), is_over, "{since} {grace}");
    }
    let deleted = view(pod("a").terminating("2026-01-01T00:09:00Z", 60));
    let due = overdue_at(deleted.meta()).unwrap();
    assert!(has_ended(deleted.meta(), deleted.get::<Phase>(), now + SignedDuration::from_millis(1)));
    assert_eq!(due, now.into());
    assert_eq!(overdue_at(view(pod("a")).meta()), None);
}

#[test]
fn the_quality_of_service_is_what_the_status_says_or_else_what_the_pod_asks_for() {
    let of = |pod: Pod, gates: Gates| {
        let pod = view(pod);
        is_best_effort(pod.get::<Shared<PodDemand>>(), pod.get::<Shared<PodAllotment>>(), gates)
    };
    let zero = json!({"containers": [container("a", json!({"cpu": "0", "x/y": "1"}), json!({}))]});
    let some = json!({"containers": [container("a", json!({}), json!({"memory": "1"}))]});
    let whole = json!({"resources": {"requests": {"cpu": "1"}}});
    for (pod, with, without) in [
        (pod("a"), true, true),
        (pod("a").spec(zero), true, true),
        (pod("a").spec(some.clone()), false, false),
        (pod("a").spec(json!({"initContainers": some["containers"]})), false, false),
        (pod("a").spec(whole), false, true),
        (pod("a").spec(some).with(json!({"status": {"qosClass": "BestEffort"}})), true, true),
        (pod("a").with(json!({"status": {"qosClass": "Guaranteed"}})), false, false),
    ] {
        assert_eq!(of(pod.clone(), GATES), with, "{pod:?}");
        assert_eq!(of(pod.clone(), Gates { pod_level_resources: false, ..GATES }), without, "{pod:?}");
    }
}
