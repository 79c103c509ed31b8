//! Sums and classes, over pods in short form.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;

fn pod(spec: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()
}

/// A container with requests and limits.
fn container(requests: Value, limits: Value) -> Value {
    json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
}

fn sidecar(requests: Value, limits: Value) -> Value {
    let mut container = container(requests, limits);
    container["restartPolicy"] = json!("Always");
    container
}

fn list(amounts: Value) -> ResourceList {
    serde_json::from_value::<BTreeMap<String, Quantity>>(amounts).unwrap()
}

#[test]
fn containers_add_up_and_init_containers_count_where_they_need_more() {
    let cpu = |amount: &str| json!({"cpu": amount});
    for (containers, init, total) in [
        (json!([container(cpu("1"), json!({})), container(cpu("500m"), json!({}))]), json!([]), "1500m"),
        (json!([container(cpu("1"), json!({}))]), json!([container(cpu("2"), json!({}))]), "2"),
        (json!([container(cpu("1"), json!({}))]), json!([sidecar(cpu("2"), json!({}))]), "3"),
        // A sidecar runs beside what comes after it only.
        (
            json!([container(cpu("1"), json!({}))]),
            json!([container(cpu("4"), json!({})), sidecar(cpu("2"), json!({}))]),
            "4",
        ),
        (
            json!([container(cpu("1"), json!({}))]),
            json!([sidecar(cpu("2"), json!({})), container(cpu("4"), json!({}))]),
            "6",
        ),
    ] {
        let pod = pod(json!({"containers": containers, "initContainers": init}));
        assert_eq!(pod_requests(&pod), list(json!({"cpu": total})), "{pod:?}");
    }
}

#[test]
fn the_pods_own_resources_overrule_and_overhead_comes_on_top() {
    let pod = pod(json!({
        "containers": [container(json!({"cpu": "1", "memory": "1Gi", "example.com/a": "1"}), json!({"memory": "2Gi"}))],
        "resources": {"requests": {"cpu": "3", "example.com/a": "5"}, "limits": {"cpu": "4"}},
        "overhead": {"cpu": "250m", "memory": "100Mi"},
    }));
    assert_eq!(pod_requests(&pod), list(json!({"cpu": "3250m", "memory": "1124Mi", "example.com/a": "1"})));
    assert_eq!(
        pod_requests_without_overhead(&pod),
        list(json!({"cpu": "3", "memory": "1Gi", "example.com/a": "1"}))
    );
    assert_eq!(pod_limits(&pod), list(json!({"cpu": "4250m", "memory": "2148Mi"})));
    assert_eq!(pod_limits_without_overhead(&pod), list(json!({"cpu": "4", "memory": "2Gi"})));
    assert!(has_pod_level_requests(&pod));
}

#[test]
fn overhead_makes_no_limit_where_there_is_none() {
    let pod = pod(
        json!({"containers": [container(json!({}), json!({"cpu": "0"}))], "overhead": {"cpu": "1", "memory": "1"}}),
    );
    assert_eq!(pod_limits(&pod), list(json!({"cpu": "0"})));
}

#[test]
fn one_container_without_limit_leaves_the_pod_without() {
    let (some, none) = (json!({"cpu": "1", "memory": "1"}), json!({"memory": "1"}));
    for (containers, init, cpu, memory) in [
        (json!([container(json!({}), some.clone())]), json!([]), true, true),
        (
            json!([container(json!({}), some.clone()), container(json!({}), none.clone())]),
            json!([]),
            false,
            true,
        ),
        (
            json!([container(json!({}), some.clone())]),
            json!([container(json!({}), none.clone())]),
            false,
            true,
        ),
        // Beside a limited sidecar it passes for limited, as upstream has it.
        (
            json!([container(json!({}), some.clone())]),
            json!([sidecar(json!({}), some.clone()), container(json!({}), none)]),
            true,
            true,
        ),
        (json!([container(json!({}), json!({"cpu": "0"}))]), json!([]), false, false),
    ] {
        let pod = pod(json!({"containers": containers, "initContainers": init}));
        assert_eq!(every_container_limits(&pod, CPU), cpu, "{pod:?}");
        assert_eq!(every_container_limits(&pod, MEMORY), memory, "{pod:?}");
    }
}

#[test]
fn classes_are_by_requests_and_limits_of_all_containers() {
    use QosClass::{BestEffort, Burstable, Guaranteed};
    let (none, both) = (json!({}), json!({"cpu": "100m", "memory": "100Mi"}));
    let (cpu, more) = (json!({"cpu": "100m"}), json!({"cpu": "200m", "memory": "200Mi"}));
    let guaranteed = || container(both.clone(), both.clone());
    for (containers, class) in [
        (json!([guaranteed()]), Guaranteed),
        (json!([guaranteed(), guaranteed()]), Guaranteed),
        (json!([guaranteed(), container(none.clone(), none.clone())]), Burstable),
        // Sums are equal, and each container limits both.
        (json!([container(both.clone(), more.clone()), container(more.clone(), both.clone())]), Guaranteed),
        (json!([container(none.clone(), none.clone())]), BestEffort),
        (json!([container(json!({"cpu": "0"}), json!({"memory": "0"}))]), BestEffort),
        (json!([container(json!({"example.com/a": "1"}), json!({"example.com/a": "1"}))]), BestEffort),
        (json!([container(cpu.clone(), cpu.clone())]), Burstable),
        (json!([container(cpu.clone(), none.clone())]), Burstable),
        (json!([container(none.clone(), cpu.clone())]), Burstable),
        (json!([container(none.clone(), both.clone())]), Burstable),
        (json!([container(both.clone(), more.clone())]), Burstable),
        (
            json!([container(
                json!({"cpu": "100m", "memory": "100Mi", "ephemeral-storage": "1"}),
                json!({"cpu": "0.1", "memory": "100Mi"})
            )]),
            Guaranteed,
        ),
    ] {
        let pod = pod(json!({"containers": containers}));
        assert_eq!(qos_class(&pod), class, "{pod:?}");
    }
    let init = |init: Value| pod(json!({"containers": [guaranteed()], "initContainers": [init]}));
    assert_eq!(qos_class(&init(container(none.clone(), none.clone()))), Burstable);
    assert_eq!(qos_class(&init(guaranteed())), Guaranteed);
    assert_eq!(qos_class(&pod(json!({"containers": []}))), BestEffort);
}

#[test]
fn a_pod_with_resources_as_a_whole_is_classed_by_those() {
    use QosClass::{BestEffort, Burstable, Guaranteed};
    let both = json!({"cpu": "1", "memory": "1Gi"});
    for (resources, class) in [
        (json!({}), BestEffort),
        (json!({"requests": {"hugepages-2Mi": "2Mi"}}), BestEffort),
        (json!({"requests": both}), Burstable),
        (json!({"limits": both}), Burstable),
        (json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}), Burstable),
        (json!({"requests": both, "limits": both}), Guaranteed),
        (json!({"requests": both, "limits": {"cpu": "2", "memory": "1Gi"}}), Burstable),
    ] {
        let pod = pod(json!({"containers": [container(both.clone(), both.clone())], "resources": resources}));
        assert_eq!(qos_class(&pod), class, "{resources}");
    }
}

#[test]
fn the_class_in_the_status_stands() {
    let mut pod = pod(json!({"containers": []}));
    for (status, class) in [
        ("Guaranteed", QosClass::Guaranteed),
        ("Burstable", QosClass::Burstable),
        ("BestEffort", QosClass::BestEffort),
        ("", QosClass::BestEffort),
    ] {
        pod.status.get_or_insert_default().qos_class = Some(status.to_owned());
        assert_eq!(qos_class(&pod), class, "{status:?}");
    }
    assert_eq!(compute_qos_class(&pod), QosClass::BestEffort);
    assert_eq!(QosClass::Guaranteed.to_string(), "Guaranteed");
}
