//! Tests of the plan: services and pods in, writes out.

use serde_json::{Value, json};
use steersman_informer::wire::Encoding;
use steersman_informer::wire::Selection;

use super::plan::{IS_HEADLESS, MANAGED_BY, OVER_CAPACITY};
use super::*;
use crate::membership::LAST_CHANGE_TRIGGER_TIME;
use steersman_controller::plan::Batch;
use steersman_informer::View;
use steersman_testing::{Pod, pod};

/// A service `ns/web` that selects `app: web`, with one port, changed by `patch`.
fn service(patch: Value) -> View<RoutedService> {
    let mut service = json!({
        "metadata": {"namespace": "ns", "name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}],
        },
    });
    json_patch::merge(&mut service, &patch);
    View::from_json(&service)
}

/// A running pod on node `n1` without an address, with the label `app: web`, whose uid is its name.
fn waiting(name: &str) -> Pod {
    pod(name).namespace("ns").uid(name).label("app", "web").on("n1").phase("Running").ready()
}

/// A pod that [`waiting`] makes, with an address.
fn serving(name: &str, ip: &str) -> Pod {
    waiting(name).ip(ip)
}

/// The entry in Endpoints of a pod that [`serving`] makes.
fn address(name: &str, ip: &str) -> Value {
    let target = json!({"kind": "Pod", "namespace": "ns", "name": name, "uid": name});
    json!({"ip": ip, "nodeName": "n1", "targetRef": target})
}

fn http() -> Value {
    json!([{"name": "http", "port": 8080, "protocol": "TCP"}])
}

/// Endpoints as this controller would write them, of version 7, with these subsets, changed by `patch`.
fn stored(subsets: Value, patch: Value) -> Arc<Endpoints> {
    let mut stored = json!({
        "metadata": {
            "namespace": "ns", "name": "web", "uid": "e", "resourceVersion": "7",
            "labels": {MANAGED_BY: CONTROLLER_NAME},
        },
        "subsets": subsets,
    });
    json_patch::merge(&mut stored, &patch);
    let body = stored.to_string().into();
    Arc::new(Endpoints::decode(&body, Encoding::Json, WrittenEndpoints::GROUPS).unwrap())
}

fn observed(
    service: impl Into<Option<View<RoutedService>>>,
    pods: Vec<Pod>,
    current: impl Into<Option<Arc<Endpoints>>>,
) -> Observed {
    Observed {
        service: service.into(),
        pods: pods.into_iter().map(|pod| View::from_json(&pod.build())).collect(),
        current: current.into(),
        trigger: None,
        triggers: None,
        written: false,
    }
}

fn step(observed: &Observed) -> Option<Step> {
    match plan(observed) {
        Plan::Done { requeue_after: None } => None,
        Plan::Act(Batch { mut steps, .. }) if steps.len() == 1 => steps.pop(),
        other => panic!("{other:?}"),
    }
}

/// The object that the plan writes, as JSON.
fn written(observed: &Observed) -> Value {
    match step(observed) {
        Some(Step::Create(manifest) | Step::Update(manifest)) => {
            steersman_api::schema::decode(&manifest.to_protobuf()).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

/// The subsets that the plan writes for a service without Endpoints.
fn subsets(service: View<RoutedService>, pods: Vec<Pod>) -> Value {
    written(&observed(service, pods, None)).get("subsets").cloned().unwrap_or(json!([]))
}

#[test]
fn a_new_object_has_the_labels_of_its_service_the_controllers_name_and_the_trigger_time() {
    let labelled = service(json!({"metadata": {"labels": {"team": "a"}}}));
    let observed = Observed {
        trigger: Some(Time::from_seconds(1_767_225_600)),
        ..observed(labelled, vec![serving("a", "10.0.0.1")], None)
    };
    assert!(matches!(step(&observed), Some(Step::Create(_))));
    assert_eq!(
        written(&observed),
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {
                "name": "web", "namespace": "ns",
                "labels": {"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"},
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
            },
            "subsets": [{"addresses": [address("a", "10.0.0.1")], "ports": http()}],
        })
    );
}

#[test]
fn a_service_without_pods_has_endpoints_without_subsets() {
    assert_eq!(subsets(service(json!({})), vec![]), json!([]));
}

#[test]
fn pods_are_listed_by_readiness() {
    let both = vec![serving("a", "10.0.0.1"), serving("b", "10.0.0.2").unready()];
    assert_eq!(
        subsets(service(json!({})), both.clone()),
        json!([{
            "addresses": [address("a", "10.0.0.1")], "notReadyAddresses": [address("b", "10.0.0.2")],
            "ports": http(),
        }])
    );
    assert_eq!(
        subsets(service(json!({"spec": {"publishNotReadyAddresses": true}})), both),
        json!([{"addresses": [address("a", "10.0.0.1"), address("b", "10.0.0.2")], "ports": http()}])
    );
}

#[test]
fn pods_that_can_never_serve_again_are_left_out() {
    let all = || {
        vec![
            serving("done", "10.0.0.1").phase("Succeeded"),
            serving("failed", "10.0.0.2").phase("Failed"),
            waiting("waiting"),
            serving("ending", "10.0.0.3").terminating("2026-01-01T00:00:00Z", 30),
        ]
    };
    assert_eq!(subsets(service(json!({})), all()), json!([]));
    // With `publishNotReadyAddresses`, only pods that have ended or have no address are left out.
    assert_eq!(
        subsets(service(json!({"spec": {"publishNotReadyAddresses": true}})), all()),
        json!([{"addresses": [address("ending", "10.0.0.3")], "ports": http()}])
    );
}

#[test]
fn the_primary_family_decides_which_address_is_listed() {
    let with_both = |first: &str, second: &str| {
        vec![serving("a", first).with(json!({"status": {"podIPs": [{"ip": first}, {"ip": second}]}}))]
    };
    let dual = || with_both("10.0.0.1", "FD00:0::01");
    let first = || with_both("fd00::1", "10.0.0.1");
    let guess = |cluster_ip: &str| json!({"spec": {"ipFamilies": null, "clusterIP": cluster_ip}});
    for (patch, pods, ip) in [
        (json!({}), dual(), Some("10.0.0.1")),
        (json!({"spec": {"ipFamilies": ["IPv6", "IPv4"]}}), dual(), Some("fd00::1")),
        (json!({"spec": {"ipFamilies": ["IPv6"]}}), vec![serving("a", "10.0.0.1")], None),
        (guess("fd00:96::1"), dual(), Some("fd00::1")),
        (guess("10.96.0.1"), first(), Some("10.0.0.1")),
        (guess("None"), first(), Some("fd00::1")),
        (guess("None"), dual(), Some("10.0.0.1")),
    ] {
        let subsets = subsets(service(patch.clone()), pods);
        assert_eq!(subsets.pointer("/0/addresses/0/ip").and_then(Value::as_str), ip, "{patch}");
    }
}

/// A pod with these containers and init containers.
fn with_ports(name: &str, ip: &str, containers: Value, init: Value) -> Pod {
    serving(name, ip).spec(json!({"containers": containers, "initContainers": init}))
}

#[test]
fn a_ports_name_is_looked_up_in_each_pod_among_containers_then_sidecars() {
    let named = service(json!({"spec": {"ports": [
        {"name": "p", "protocol": "TCP", "targetPort": "web", "appProtocol": "kubernetes.io/h2c"},
    ]}}));
    let web = |port: u16, protocol: &str| json!({"name": "web", "containerPort": port, "protocol": protocol});
    let pods = vec![
        with_ports("first", "10.0.0.1", json!([{"ports": [web(53, "UDP"), web(80, "TCP")]}]), json!([])),
        with_ports("second", "10.0.0.2", json!([{}, {"ports": [web(81, "TCP")]}]), json!([])),
        with_ports(
            "sidecar",
            "10.0.0.3",
            json!([{"ports": [{"containerPort": 80, "protocol": "TCP"}]}]),
            json!([{"ports": [web(1, "TCP")]}, {"restartPolicy": "Always", "ports": [web(81, "TCP")]}]),
        ),
        with_ports(
            "none",
            "10.0.0.4",
            json!([{"ports": [web(53, "UDP")]}]),
            json!([{"ports": [web(1, "TCP")]}]),
        ),
    ];
    let port = |number: u16| json!([{"name": "p", "port": number, "protocol": "TCP", "appProtocol": "kubernetes.io/h2c"}]);
    let mut found: Vec<Value> = subsets(named, pods).as_array().unwrap().clone();
    found.sort_by_key(|subset| subset["ports"][0]["port"].as_u64());
    assert_eq!(
        found,
        [
            json!({"addresses": [address("first", "10.0.0.1")], "ports": port(80)}),
            json!({"addresses": [address("second", "10.0.0.2"), address("sidecar", "10.0.0.3")], "ports": port(81)}),
        ]
    );
}

#[test]
fn headless_services_are_marked_and_may_have_no_ports() {
    let headless = service(json!({"spec": {"clusterIP": "None", "ports": null}}));
    let both = vec![serving("a", "10.0.0.1"), serving("b", "10.0.0.2").unready()];
    let written = written(&observed(headless, both, None));
    assert_eq!(written["metadata"]["labels"], json!({MANAGED_BY: CONTROLLER_NAME, IS_HEADLESS: ""}));
    assert_eq!(
        written["subsets"],
        json!([{"addresses": [address("a", "10.0.0.1")], "notReadyAddresses": [address("b", "10.0.0.2")]}])
    );
    // A service with a cluster IP but without ports gets no subsets.
    assert_eq!(subsets(service(json!({"spec": {"ports": null}})), vec![serving("a", "10.0.0.1")]), json!([]));
}

#[test]
fn a_pod_has_its_name_in_the_domain_of_the_service_that_is_its_subdomain() {
    for (spec, hostname) in [
        (json!({"hostname": "a", "subdomain": "web"}), Some("a")),
        (json!({"hostname": "a", "subdomain": "other"}), None),
        (json!({"subdomain": "web"}), None),
    ] {
        let subsets = subsets(service(json!({})), vec![serving("a", "10.0.0.1").spec(spec.clone())]);
        assert_eq!(subsets[0]["addresses"][0]["hostname"].as_str(), hostname, "{spec}");
    }
}

#[test]
fn the_endpoints_of_services_without_selector_are_left_alone() {
    for patch in
        [json!({"spec": {"type": "ExternalName", "clusterIP": null}}), json!({"spec": {"selector": null}})]
    {
        let current = stored(json!([{"addresses": [{"ip": "1.2.3.4"}]}]), json!({}));
        assert_eq!(step(&observed(service(patch.clone()), vec![], current)), None, "{patch}");
        assert_eq!(step(&observed(service(patch), vec![], None)), None);
    }
}

#[test]
fn endpoints_without_service_are_deleted_once() {
    let current = || stored(json!([]), json!({}));
    assert_eq!(step(&observed(None, vec![], current())), Some(Step::Delete { uid: "e".into() }));
    assert_eq!(step(&observed(None, vec![], None)), None);
    let going = stored(json!([]), json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    assert_eq!(step(&observed(None, vec![], going)), None);
    assert_eq!(step(&Observed { written: true, ..observed(None, vec![], current()) }), None);
}

#[test]
fn an_object_with_the_right_content_is_not_written() {
    let pods = || vec![serving("a", "10.0.0.1"), serving("b", "10.0.0.2")];
    let labelled = || service(json!({"metadata": {"labels": {"team": "a"}}}));
    let same = json!([{"addresses": [address("a", "10.0.0.1"), address("b", "10.0.0.2")], "ports": http()}]);
    let split = json!([
        {"addresses": [address("b", "10.0.0.2")], "ports": http()},
        {"addresses": [address("a", "10.0.0.1")], "ports": http()},
    ]);
    let team = || json!({"metadata": {"labels": {"team": "a"}}});
    let mut versioned = same.clone();
    versioned[0]["addresses"][0]["targetRef"]["resourceVersion"] = json!("3");
    let noted = json!({"metadata": {"labels": {"team": "a", IS_HEADLESS: ""}, "annotations": {"x": "y", LAST_CHANGE_TRIGGER_TIME: "z"}}});
    for current in [
        stored(same.clone(), team()),
        stored(split, team()),
        stored(versioned, team()),
        stored(same.clone(), noted),
    ] {
        let observed =
            Observed { trigger: Some(Time::from_seconds(0)), ..observed(labelled(), pods(), current) };
        assert_eq!(step(&observed), None);
    }
    for (subsets, patch) in [
        (json!([]), team()),
        (same.clone(), json!({})),
        (same.clone(), json!({"metadata": {"labels": {"team": "b"}}})),
        (same.clone(), json!({"metadata": {"labels": {"team": "a", "more": ""}}})),
        (same.clone(), json!({"metadata": {"labels": {"team": "a", MANAGED_BY: "me"}}})),
        (
            same.clone(),
            json!({"metadata": {"labels": {"team": "a"}, "annotations": {OVER_CAPACITY: "warning"}}}),
        ),
    ] {
        let current = stored(subsets, patch.clone());
        assert!(matches!(step(&observed(labelled(), pods(), current)), Some(Step::Update(_))), "{patch}");
    }
}

#[test]
fn an_update_keeps_the_metadata_that_the_controller_does_not_own() {
    let owner = json!({"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s"});
    let current = stored(
        json!([]),
        json!({"metadata": {
            "labels": {"stale": "x", IS_HEADLESS: ""},
            "annotations": {"mine": "y", LAST_CHANGE_TRIGGER_TIME: "z", OVER_CAPACITY: "truncated"},
            "ownerReferences": [owner], "finalizers": ["example.com/hold"],
        }}),
    );
    assert_eq!(
        written(&observed(service(json!({})), vec![serving("a", "10.0.0.1")], current)),
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {
                "name": "web", "namespace": "ns", "uid": "e", "resourceVersion": "7",
                "labels": {MANAGED_BY: CONTROLLER_NAME},
                "annotations": {"mine": "y"},
                "ownerReferences": [owner], "finalizers": ["example.com/hold"],
            },
            "subsets": [{"addresses": [address("a", "10.0.0.1")], "ports": http()}],
        })
    );
}

#[test]
fn beyond_a_thousand_addresses_the_object_is_truncated_once() {
    let pods: Vec<_> = (0..1001_u16)
        .map(|at| serving(&format!("p{at}"), &format!("10.0.{}.{}", at / 250, at % 250 + 1)))
        .collect();
    let first = written(&observed(service(json!({})), pods.clone(), None));
    assert_eq!(first["metadata"]["annotations"], json!({OVER_CAPACITY: "truncated"}));
    assert_eq!(first["subsets"][0]["addresses"].as_array().unwrap().len(), 1000);
    let current = stored(first["subsets"].clone(), json!({"metadata": first["metadata"]}));
    assert_eq!(step(&observed(service(json!({})), pods.clone(), current.clone())), None);
    // Below the limit again, all addresses are listed and the annotation is removed.
    let fewer = written(&observed(service(json!({})), pods[1..].to_vec(), current));
    assert_eq!(fewer["metadata"].get("annotations"), None);
    assert_eq!(fewer["subsets"][0]["addresses"].as_array().unwrap().len(), 1000);
}
