use jiff::Timestamp;
use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn quota(hard: Value, used: Value) -> Value {
    json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}})
}

fn pod(requests: Value) -> Value {
    json!({"spec": {"containers": [{"name": "a", "resources": {"requests": requests}}]}})
}

fn created(quota: &Value, table: &str, object: &Value) -> Result<Option<Value>, String> {
    let used = check(&[quota], &Write::create(table, object, NOW))?;
    Ok(used.get(&0).cloned())
}

#[test]
fn what_is_admitted_is_counted_and_what_is_too_much_is_told() {
    let ending =
        json!({"metadata": {"deletionTimestamp": "1969-12-31T23:00:00Z", "deletionGracePeriodSeconds": 30}});
    let balanced = json!({"spec": {"type": "LoadBalancer", "ports": [{}, {}]}});
    for (hard, used, table, object, expected) in [
        (json!({"pods": "2"}), json!({"pods": "1"}), "pods", pod(json!({})), Ok(Some(json!({"pods": "2"})))),
        (
            json!({"pods": "1"}),
            json!({"pods": "1"}),
            "pods",
            pod(json!({})),
            Err("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"),
        ),
        (
            json!({"cpu": "1", "requests.memory": "1Gi", "pods": "9"}),
            json!({"cpu": "500m", "requests.memory": "512Mi", "pods": "1"}),
            "pods",
            pod(json!({"cpu": "600m", "memory": "1Gi"})),
            Err("exceeded quota: q, requested: cpu=600m,requests.memory=1Gi, \
                 used: cpu=500m,requests.memory=512Mi, limited: cpu=1,requests.memory=1Gi"),
        ),
        (
            json!({"limits.cpu": "1", "requests.memory": "1"}),
            json!({"limits.cpu": "0", "requests.memory": "0"}),
            "pods",
            pod(json!({"memory": "1"})),
            Err("failed quota: q: must specify limits.cpu for: a"),
        ),
        (
            json!({"pods": "1", "services": "1"}),
            json!({}),
            "pods",
            pod(json!({})),
            Err("status unknown for quota: q, resources: pods"),
        ),
        (
            json!({"count/jobs.batch": "1"}),
            json!({"count/jobs.batch": "0"}),
            "jobs.batch",
            json!({}),
            Ok(Some(json!({"count/jobs.batch": "1"}))),
        ),
        (json!({"count/jobs.batch": "1"}), json!({}), "cronjobs.batch", json!({}), Ok(None)),
        (
            json!({"secrets": "1", "count/secrets": "5"}),
            json!({"secrets": "1", "count/secrets": "1"}),
            "secrets",
            json!({}),
            Err("exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1"),
        ),
        (
            json!({"services.nodeports": "1"}),
            json!({"services.nodeports": "0"}),
            "services",
            balanced,
            Err("exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, \
                 limited: services.nodeports=1"),
        ),
        (
            json!({"fast.storageclass.storage.k8s.io/requests.storage": "1Gi"}),
            json!({"fast.storageclass.storage.k8s.io/requests.storage": "0"}),
            "persistentvolumeclaims",
            json!({"spec": {"storageClassName": "slow", "resources": {"requests": {"storage": "2Gi"}}}}),
            Ok(None),
        ),
        (
            json!({"requests.storage": "9"}),
            json!({"requests.storage": "1"}),
            "persistentvolumeclaims",
            json!({"spec": {"resources": {"requests": {"storage": "1500m"}}}}),
            Ok(Some(json!({"requests.storage": "3"}))),
        ),
        (
            json!({"requests.nvidia.com/gpu": "1"}),
            json!({"requests.nvidia.com/gpu": "0"}),
            "pods",
            pod(json!({"nvidia.com/gpu": "1"})),
            Ok(Some(json!({"requests.nvidia.com/gpu": "1"}))),
        ),
        (
            json!({"pods": "1"}),
            json!({"pods": "1"}),
            "pods",
            json!({"status": {"phase": "Failed"}}),
            Ok(None),
        ),
        (json!({"pods": "1"}), json!({"pods": "1"}), "pods", ending, Ok(None)),
    ] {
        let found = created(&quota(hard.clone(), used), table, &object);
        assert_eq!(found, expected.map_err(str::to_owned), "{table} under {hard}");
    }
}

#[test]
fn an_update_counts_for_what_is_more() {
    let service = |kind: &str, ports: usize| json!({"spec": {"type": kind, "ports": vec![json!({}); ports]}});
    let quota = quota(json!({"services.nodeports": "3"}), json!({"services.nodeports": "2"}));
    for (old, new, expected) in [
        (service("ClusterIP", 2), service("NodePort", 1), Ok(Some("3"))),
        (service("NodePort", 2), service("NodePort", 3), Ok(Some("3"))),
        (service("NodePort", 2), service("NodePort", 1), Ok(None)),
        (service("NodePort", 2), service("ClusterIP", 2), Ok(None)),
        (service("NodePort", 2), service("NodePort", 4), Err(())),
    ] {
        let write = Write::update("services", "", (&new, &old), NOW);
        let found = check(&[&quota], &write).map_err(|_| ());
        let used = found.map(|used| used.get(&0).map(|used| used["services.nodeports"].clone()));
        assert_eq!(used, expected.map(|used| used.map(Value::from)), "{old} {new}");
    }
    let pod = pod(json!({}));
    let status = Write::update("pods", "status", (&pod, &pod), NOW);
    assert_eq!(check(&[&quota], &status), Ok(BTreeMap::new()));
}

#[test]
fn a_quota_is_about_what_is_in_all_its_scopes() {
    let of = |scopes: Value, selected: Value| {
        let mut quota = quota(json!({"pods": "9"}), json!({"pods": "0"}));
        quota["spec"]["scopes"] = scopes;
        quota["spec"]["scopeSelector"] = json!({"matchExpressions": selected});
        quota
    };
    let plain = |scope: &str| of(json!([scope]), json!([]));
    let priority = |operator: &str| {
        of(json!([]), json!([{"scopeName": "PriorityClass", "operator": operator, "values": ["high"]}]))
    };
    let burstable = || pod(json!({"cpu": "1"}));
    let mut ending = burstable();
    ending["spec"]["activeDeadlineSeconds"] = 5.into();
    let mut high = burstable();
    high["spec"]["priorityClassName"] = "high".into();
    let mut far = burstable();
    far["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["x"]}]}});
    for (quota, pod, about) in [
        (plain("BestEffort"), pod(json!({})), true),
        (plain("BestEffort"), burstable(), false),
        (plain("NotBestEffort"), burstable(), true),
        (plain("Terminating"), ending.clone(), true),
        (plain("Terminating"), burstable(), false),
        (plain("NotTerminating"), ending.clone(), false),
        (of(json!(["Terminating", "BestEffort"]), json!([])), ending, false),
        (priority("In"), high.clone(), true),
        (priority("In"), burstable(), false),
        (priority("NotIn"), high.clone(), false),
        (priority("NotIn"), burstable(), true),
        (priority("Exists"), high.clone(), true),
        (priority("DoesNotExist"), high, false),
        (plain("CrossNamespacePodAffinity"), far, true),
        (plain("CrossNamespacePodAffinity"), burstable(), false),
    ] {
        assert_eq!(created(&quota, "pods", &pod).unwrap().is_some(), about, "{quota} {pod}");
    }
    let mut of_maps = quota(json!({"configmaps": "1"}), json!({"configmaps": "0"}));
    of_maps["spec"]["scopes"] = json!(["BestEffort"]);
    assert_eq!(created(&of_maps, "configmaps", &json!({})), Ok(None), "only pods are in scopes of pods");
}

#[test]
fn a_pod_that_is_resized_uses_what_it_had_until_it_has_less() {
    let resized = |asked: &str, has: &str, conditions: Value| {
        let mut pod = pod(json!({"cpu": asked}));
        let has = json!({"cpu": has});
        let container = json!({"name": "a", "resources": {"requests": has}, "allocatedResources": has});
        pod["status"] = json!({"conditions": conditions, "containerStatuses": [container]});
        pod
    };
    let pending = |reason: &str| json!([{"type": "PodResizePending", "reason": reason}]);
    for (pod, expected) in [
        (pod(json!({"cpu": "1"})), "1"),
        (resized("1", "2", json!([])), "2"),
        (resized("1", "1", json!([])), "1"),
        (resized("3", "2", pending("Deferred")), "3"),
        (resized("3", "2", pending("Infeasible")), "2"),
    ] {
        let used = Measured { table: "pods", now: NOW }.usage(&pod);
        assert_eq!(used["requests.cpu"].to_string(), expected, "{pod}");
    }
}
