//! Tables of admission.

mod preemption;

use serde_json::{Value, json};

use super::*;

fn pod(name: &str, spec: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "default", "uid": name },
        "spec": spec,
        "status": { "phase": "Pending" },
    }))
    .unwrap()
}

/// A pod of one container.
fn container(container: Value) -> Value {
    let mut container = container;
    container["name"] = "c".into();
    json!({ "containers": [container] })
}

fn asking(requests: Value) -> Pod {
    pod("p", container(json!({ "resources": { "requests": requests } })))
}

fn node() -> Node {
    serde_json::from_value(json!({
        "metadata": { "name": "n", "labels": { "disk": "ssd", "cores": "8" } },
        "status": { "allocatable": {
            "cpu": "2", "memory": "1Gi", "ephemeral-storage": "10Gi", "pods": "3", "example.com/gpu": "1",
            "hugepages-2Mi": "4Mi",
        } },
    }))
    .unwrap()
}

fn policy() -> Policy {
    Policy { sysctls: Allowlist::new("6.1", &[]).unwrap(), app_armor: false }
}

fn admitted_on(
    node: &Node,
    pod: &Pod,
    others: &[Pod],
    pressures: &[Pressure],
) -> Result<(), (String, String)> {
    let others: Vec<_> = others.iter().cloned().map(Arc::new).collect();
    let pressures = pressures.iter().copied().collect();
    let situation = Situation { node: Some(node), pressures: &pressures, others: &others };
    admit(pod, &policy(), situation)
        .map(|admission| assert_eq!(admission, Admission::Now))
        .map_err(|rejection| (rejection.reason, rejection.message))
}

fn admitted(pod: &Pod, others: &[Pod]) -> Result<(), (String, String)> {
    admitted_on(&node(), pod, others, &[])
}

fn refused(reason: &str, message: &str) -> Result<(), (String, String)> {
    Err((reason.to_owned(), message.to_owned()))
}

fn insufficient(resource: &str, requested: i64, used: i64, capacity: i64) -> Result<(), (String, String)> {
    let message = format!(
        "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
    );
    refused(&format!("OutOf{resource}"), &message)
}

#[test]
fn what_others_are_giving_back_is_not_free_yet() {
    let mut other = asking(json!({ "cpu": "500m" }));
    other.metadata.uid = Some("o".to_owned());
    let pod = asking(json!({ "cpu": "1" }));
    assert_eq!(admitted(&pod, std::slice::from_ref(&other)), Ok(()));
    other.status = serde_json::from_value(json!({ "containerStatuses": [{
        "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "resources": { "requests": { "cpu": "1500m" } }, "allocatedResources": { "cpu": "500m" },
    }] }))
    .unwrap();
    assert_eq!(admitted(&pod, &[other]), insufficient("cpu", 1000, 1500, 2000));
}

#[test]
fn a_pod_needs_room_for_what_it_asks_for() {
    let other = |name: &str, requests: Value| {
        let mut other = asking(requests);
        other.metadata.uid = Some(name.to_owned());
        other
    };
    let one = other("o", json!({ "cpu": "1500m", "memory": "1000Mi", "example.com/gpu": "1" }));
    for (requests, expected) in [
        (json!({}), Ok(())),
        (
            json!({ "cpu": "500m", "memory": "24Mi", "ephemeral-storage": "10Gi", "hugepages-2Mi": "4Mi" }),
            Ok(()),
        ),
        (json!({ "cpu": "501m" }), insufficient("cpu", 501, 1500, 2000)),
        (json!({ "memory": "25Mi" }), insufficient("memory", 25 << 20, 1000 << 20, 1 << 30)),
        (json!({ "ephemeral-storage": "11Gi" }), insufficient("ephemeral-storage", 11 << 30, 0, 10 << 30)),
        (json!({ "hugepages-2Mi": "6Mi" }), insufficient("hugepages-2Mi", 6 << 20, 0, 4 << 20)),
        (json!({ "example.com/gpu": "1" }), insufficient("example.com/gpu", 1, 1, 1)),
        (json!({ "example.com/other": "1" }), Ok(())),
        (json!({ "memory": "2Gi", "cpu": "3" }), insufficient("cpu", 3000, 1500, 2000)),
    ] {
        assert_eq!(admitted(&asking(requests.clone()), std::slice::from_ref(&one)), expected, "{requests}");
    }
    // A pod is not in its own way.
    assert_eq!(admitted(&asking(json!({ "cpu": "2" })), &[asking(json!({ "cpu": "2" }))]), Ok(()));
    let full = [other("a", json!({})), other("b", json!({})), other("c", json!({}))];
    assert_eq!(admitted(&asking(json!({ "cpu": "5" })), &full), insufficient("pods", 1, 3, 3));
}

#[test]
fn the_sum_counts_side_cars_init_containers_the_whole_pod_and_its_overhead() {
    let resources = |cpu: &str| json!({ "requests": { "cpu": cpu } });
    let spec = json!({
        "containers": [{ "name": "c", "resources": resources("500m") }],
        "initContainers": [
            { "name": "side", "restartPolicy": "Always", "resources": resources("400m") },
            { "name": "init", "resources": resources("1500m") },
        ],
        "overhead": { "cpu": "200m" },
    });
    assert_eq!(admitted(&pod("p", spec), &[]), insufficient("cpu", 2100, 0, 2000));
    let whole = json!({
        "containers": [{ "name": "c", "resources": resources("500m") }],
        "resources": { "requests": { "cpu": "3" } },
    });
    assert_eq!(admitted(&pod("p", whole), &[]), insufficient("cpu", 3000, 0, 2000));
}

#[test]
fn a_pod_must_want_to_be_here() {
    let affinity = |terms: Value| {
        json!({ "containers": [], "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
        } } })
    };
    let expression = |key: &str, operator: &str, values: Value| {
        affinity(json!([{ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }]))
    };
    let field = |operator: &str, values: Value| {
        let requirement = json!({ "key": "metadata.name", "operator": operator, "values": values });
        affinity(json!([{ "matchFields": [requirement] }]))
    };
    let selector = |labels: Value| json!({ "containers": [], "nodeSelector": labels });
    for (spec, fits) in [
        (selector(json!({ "disk": "ssd" })), true),
        (selector(json!({ "disk": "hdd" })), false),
        (selector(json!({ "disk": "ssd", "zone": "a" })), false),
        (expression("disk", "In", json!(["hdd", "ssd"])), true),
        (expression("disk", "In", json!([])), false),
        (expression("disk", "NotIn", json!(["ssd"])), false),
        (expression("zone", "NotIn", json!(["a"])), true),
        (expression("disk", "Exists", json!([])), true),
        (expression("disk", "Exists", json!(["x"])), false),
        (expression("zone", "DoesNotExist", json!([])), true),
        (expression("cores", "Gt", json!(["7"])), true),
        (expression("cores", "Gt", json!(["8"])), false),
        (expression("cores", "Lt", json!(["9"])), true),
        (expression("disk", "Lt", json!(["9"])), false),
        (expression("cores", "Gt", json!(["many"])), false),
        (expression("disk", "Like", json!(["ssd"])), false),
        (field("In", json!(["n"])), true),
        (field("In", json!(["m"])), false),
        (field("NotIn", json!(["m"])), true),
        (field("In", json!(["n", "m"])), false),
        (affinity(json!([])), false),
        (affinity(json!([{}])), false),
        (
            affinity(json!([
                { "matchExpressions": [{ "key": "disk", "operator": "Like" }] },
                { "matchExpressions": [{ "key": "disk", "operator": "Exists" }] },
            ])),
            true,
        ),
    ] {
        let message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
        let expected = if fits { Ok(()) } else { refused("NodeAffinity", message) };
        assert_eq!(admitted(&pod("p", spec.clone()), &[]), expected, "{spec}");
    }
    let elsewhere = json!({ "containers": [], "nodeName": "m" });
    let message = "Predicate NodeName failed: node(s) didn't match the requested node name";
    assert_eq!(admitted(&pod("p", elsewhere), &[]), refused("NodeName", message));
    assert_eq!(admitted(&pod("p", json!({ "containers": [], "nodeName": "n" })), &[]), Ok(()));
}

#[test]
fn a_port_of_the_host_is_had_once() {
    let on = |name: &str, port: Value| pod(name, container(json!({ "ports": [port] })));
    let port = |ip: &str, protocol: &str, port: i32| json!({ "containerPort": 80, "hostIP": ip, "protocol": protocol, "hostPort": port });
    let message = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    for (wanted, taken, fits) in [
        (port("", "TCP", 80), port("", "TCP", 80), false),
        (port("", "", 80), port("0.0.0.0", "TCP", 80), false),
        (port("", "UDP", 80), port("", "TCP", 80), true),
        (port("", "TCP", 81), port("", "TCP", 80), true),
        (port("10.0.0.1", "TCP", 80), port("", "TCP", 80), false),
        (port("", "TCP", 80), port("10.0.0.1", "TCP", 80), false),
        (port("10.0.0.1", "TCP", 80), port("10.0.0.2", "TCP", 80), true),
        (json!({ "containerPort": 80 }), json!({ "containerPort": 80 }), true),
    ] {
        let expected = if fits { Ok(()) } else { refused("NodePorts", message) };
        assert_eq!(admitted(&on("p", wanted.clone()), &[on("o", taken)]), expected, "{wanted}");
    }
    // An init container lets go of its port, a side car does not.
    let ports = json!([port("", "TCP", 80)]);
    let init = |policy: Option<&str>| {
        let init = json!({ "name": "i", "ports": ports, "restartPolicy": policy });
        pod("o", json!({ "containers": [], "initContainers": [init] }))
    };
    let wanted = on("p", port("", "TCP", 80));
    assert_eq!(admitted(&wanted, &[init(None)]), Ok(()));
    assert_eq!(admitted(&wanted, &[init(Some("Always"))]), refused("NodePorts", message));
}

#[test]
fn a_taint_that_would_drive_a_pod_away_keeps_it_out() {
    let mut node = node();
    let taints = json!({ "taints": [
        { "key": "a", "value": "1", "effect": "NoSchedule" }, { "key": "b", "value": "2", "effect": "NoExecute" },
    ] });
    node.spec = serde_json::from_value(taints).unwrap();
    let message = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
    for (tolerations, fits) in [
        (json!([]), false),
        (json!([{ "key": "b", "operator": "Exists" }]), true),
        (json!([{ "operator": "Exists" }]), true),
        (json!([{ "key": "b", "value": "2", "effect": "NoExecute" }]), true),
        (json!([{ "key": "b", "value": "2", "effect": "NoSchedule" }]), false),
        (json!([{ "key": "b", "operator": "Equal", "value": "3" }]), false),
        (json!([{ "key": "a", "operator": "Exists" }]), false),
        (json!([{ "key": "b", "operator": "Gt", "value": "1" }]), false),
    ] {
        let pod = pod("p", json!({ "containers": [], "tolerations": tolerations }));
        let expected = if fits { Ok(()) } else { refused("TaintToleration", message) };
        assert_eq!(admitted_on(&node, &pod, &[], &[]), expected, "{tolerations}");
    }
    let mut fixed = pod("p", json!({ "containers": [] }));
    fixed.metadata.annotations = Some([("kubernetes.io/config.source".to_owned(), "file".to_owned())].into());
    assert_eq!(admitted_on(&node, &fixed, &[], &[]), Ok(()), "a static pod stays");
}

#[test]
fn a_node_that_runs_short_takes_critical_pods_and_those_that_asked_for_memory() {
    let best_effort = pod("p", json!({ "containers": [{ "name": "c" }] }));
    let burstable = asking(json!({ "memory": "1Mi" }));
    let critical = pod("p", json!({ "containers": [{ "name": "c" }], "priority": 2_000_000_000 }));
    let tolerant = pod(
        "p",
        json!({
            "containers": [{ "name": "c" }],
            "tolerations": [{ "key": "node.kubernetes.io/memory-pressure", "operator": "Exists" }],
        }),
    );
    let evicted = |listed: &str| refused("Evicted", &format!("The node had condition: [{listed}]. "));
    let memory = [Pressure::Memory];
    for (pod, pressures, expected) in [
        (&best_effort, &[][..], Ok(())),
        (&best_effort, &memory[..], evicted("MemoryPressure")),
        (&burstable, &memory, Ok(())),
        (&tolerant, &memory, Ok(())),
        (&critical, &[Pressure::Memory, Pressure::Disk], Ok(())),
        (&burstable, &[Pressure::Disk], evicted("DiskPressure")),
        (&tolerant, &[Pressure::Pid, Pressure::Memory], evicted("MemoryPressure PIDPressure")),
    ] {
        assert_eq!(admitted_on(&node(), pod, &[], pressures), expected, "{pressures:?}");
    }
}

#[test]
fn what_the_node_can_not_do_is_refused() {
    let with = |spec: Value| {
        let mut whole = json!({ "containers": [{ "name": "c" }] });
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        pod("p", whole)
    };
    let rules =
        json!([{ "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [1] } }]);
    for (pod, expected) in [
        (with(json!({ "os": { "name": "linux" } })), Ok(())),
        (
            with(json!({ "os": { "name": "windows" } })),
            refused("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"),
        ),
        (with(json!({ "securityContext": { "supplementalGroupsPolicy": "Merge" } })), Ok(())),
        (
            with(json!({ "securityContext": { "supplementalGroupsPolicy": "Strict" } })),
            refused(
                "SupplementalGroupsPolicyNotSupported",
                "SupplementalGroupsPolicy=Strict is not supported in this node",
            ),
        ),
        (
            with(
                json!({ "securityContext": { "sysctls": [{ "name": "net.ipv4.tcp_rmem", "value": "1" }] } }),
            ),
            Ok(()),
        ),
        (
            with(json!({ "securityContext": { "sysctls": [{ "name": "vm.swappiness", "value": "1" }] } })),
            refused("SysctlForbidden", "forbidden sysctl: \"vm.swappiness\" not allowlisted"),
        ),
        (with(json!({ "securityContext": { "appArmorProfile": { "type": "Unconfined" } } })), Ok(())),
        (
            with(json!({ "securityContext": { "appArmorProfile": { "type": "RuntimeDefault" } } })),
            refused("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
        ),
        (with(json!({ "hostUsers": false })), Ok(())),
        (
            with(json!({ "hostUsers": false, "hostNetwork": true })),
            refused(
                "PodFeatureUnsupported",
                "Pod requires node features that are not available: UserNamespacesHostNetworkSupport",
            ),
        ),
        (with(json!({ "containers": [{ "name": "c", "restartPolicyRules": rules }] })), Ok(())),
    ] {
        assert_eq!(admitted(&pod, &[]), expected, "{pod:?}");
    }
    let mut labelled = with(json!({}));
    labelled.metadata.labels = Some([("kubernetes.io/os".to_owned(), "windows".to_owned())].into());
    let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
    assert_eq!(admitted(&labelled, &[]), refused("PodOSSelectorNodeLabelDoesNotMatch", message));
    let mut able = node();
    let status = able.status.get_or_insert_default();
    status.features = serde_json::from_value(json!({ "supplementalGroupsPolicy": true })).unwrap();
    let strict = json!({ "securityContext": { "supplementalGroupsPolicy": "Strict" } });
    assert_eq!(admitted_on(&able, &with(strict), &[], &[]), Ok(()));
}

#[test]
fn app_armor_is_looked_at_before_a_pod_begins() {
    let local = |name: &str| {
        let profile = json!({ "type": "Localhost", "localhostProfile": name });
        pod("p", container(json!({ "securityContext": { "appArmorProfile": profile } })))
    };
    let policy = Policy { app_armor: true, ..policy() };
    let admitted = |pod: &Pod| {
        let situation = Situation { node: Some(&node()), pressures: &BTreeSet::new(), others: &[] };
        admit(pod, &policy, situation).map_err(|rejection| rejection.message)
    };
    assert_eq!(admitted(&local("mine")), Ok(Admission::Now));
    let message = "Cannot enforce AppArmor: invalid empty AppArmor profile name";
    assert_eq!(admitted(&local(" ")), Err(message.to_owned()));
    let mut running = local(" ");
    running.status.as_mut().unwrap().phase = Some("Running".to_owned());
    assert_eq!(admitted(&running), Ok(Admission::Now));
}

#[test]
fn of_several_reasons_the_first_is_told_and_of_a_critical_pod_the_first_that_room_does_not_mend() {
    let spec = |priority: i32| {
        json!({
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": "5" } } }],
            "nodeSelector": { "disk": "hdd" }, "nodeName": "m", "priority": priority,
        })
    };
    assert_eq!(admitted(&pod("p", spec(0)), &[]), insufficient("cpu", 5000, 0, 2000));
    assert_eq!(admitted(&pod("p", spec(2_000_001_000)), &[]).unwrap_err().0, "NodeAffinity");
}

#[test]
fn only_what_the_nodes_labels_alone_are_against_may_fit_a_newer_node() {
    let by_labels = |spec: Value| {
        let (node, pressures) = (node(), BTreeSet::new());
        let situation = Situation { node: Some(&node), pressures: &pressures, others: &[] };
        admit(&pod("p", spec), &policy(), situation).unwrap_err().by_labels
    };
    let containers = json!([{ "name": "c" }]);
    assert!(by_labels(json!({ "containers": containers, "nodeSelector": { "disk": "hdd" } })));
    assert!(!by_labels(json!({ "containers": containers, "nodeName": "m" })));
    assert!(!by_labels(json!({
        "containers": containers, "nodeSelector": { "disk": "hdd" }, "nodeName": "m",
    })));
}

#[test]
fn without_a_node_nothing_is_admitted() {
    let situation = Situation { node: None, pressures: &BTreeSet::new(), others: &[] };
    let rejection = admit(&asking(json!({})), &policy(), situation).unwrap_err();
    assert_eq!(
        (rejection.reason.as_str(), rejection.message.as_str()),
        ("InvalidNodeInfo", "Kubelet cannot get node info.")
    );
}
