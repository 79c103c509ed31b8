//! Which slices a service has, and when they are written.

use super::*;

#[test]
fn a_new_slice_has_the_labels_of_its_service_and_the_trigger_time() {
    let labels =
        json!({"team": "a", "service.kubernetes.io/headless": "mine", "kubernetes.io/service-name": "other"});
    let labelled = service(json!({"metadata": {"labels": labels}}));
    let trigger = Some(steersman_api::Time::from_seconds(1_767_225_600));
    let observed = Observed { trigger, ..observed(labelled, vec![serving("a", "10.0.0.1")], vec![]) };
    let created = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "generateName": "web-", "namespace": "ns",
            "labels": {
                "team": "a", "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
            "ownerReferences": [owner()],
        },
        "addressType": "IPv4",
        "endpoints": [endpoint("a", "10.0.0.1", json!({}))],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    });
    assert_eq!(writes(observed), [("create".to_owned(), created)]);
}

#[test]
fn a_service_without_pods_has_a_placeholder() {
    let [(verb, slice)] = &writes(observed(service(json!({})), vec![], vec![]))[..] else { panic!() };
    assert_eq!((verb.as_str(), &slice["ports"], &slice["endpoints"]), ("create", &Value::Null, &Value::Null));
    let placeholder = stored("p", json!([]), json!({"ports": null}));
    assert!(writes(observed(service(json!({})), vec![], vec![placeholder.clone()])).is_empty());
    let pods = || vec![serving("a", "10.0.0.1")];
    let written = writes(observed(service(json!({})), pods(), vec![placeholder]));
    assert_eq!(written.len(), 1);
    assert_eq!(written[0].0, "update p", "the placeholder is replaced, not deleted");
    assert!(written[0].1["metadata"].get("resourceVersion").is_none());
    let last = stored("a", json!([endpoint("a", "10.0.0.1", json!({}))]), json!({}));
    let written = writes(observed(service(json!({})), vec![], vec![last]));
    assert_eq!(
        (written.len(), written[0].0.as_str()),
        (1, "update a"),
        "the last slice becomes the placeholder"
    );
    assert!(written[0].1["ports"].is_null());
}

#[test]
fn what_is_right_is_not_written() {
    let slice = || stored("a", json!([endpoint("a", "10.0.0.1", json!({}))]), json!({}));
    let pods = || vec![serving("a", "10.0.0.1")];
    assert!(writes(observed(service(json!({})), pods(), vec![slice()])).is_empty());
    for (patch, why) in [
        (json!({"metadata": {"annotations": {"a": "b"}}}), "annotations are not the controller's"),
        (
            json!({"metadata": {"labels": {"service.kubernetes.io/headless": ""}}}),
            "upstream leaves it as well",
        ),
    ] {
        let slice = stored("a", json!([endpoint("a", "10.0.0.1", json!({}))]), patch);
        assert!(writes(observed(service(json!({})), pods(), vec![slice])).is_empty(), "{why}");
    }
    let labelled = service(json!({"metadata": {"labels": {"team": "a"}}}));
    let written = writes(observed(labelled, pods(), vec![slice()]));
    assert_eq!((written.len(), written[0].0.as_str()), (1, "update a"));
    assert_eq!(written[0].1["metadata"]["labels"]["team"], "a");
    assert_eq!(written[0].1["metadata"]["resourceVersion"], "7");
}

#[test]
fn the_conditions_of_an_endpoint_follow_its_pod() {
    let deleting =
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}});
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let mut both = deleting.clone();
    json_patch::merge(&mut both, &unready);
    for (patch, publish, expected) in [
        (json!({}), false, [true, true, false]),
        (unready.clone(), false, [false, false, false]),
        (deleting.clone(), false, [false, true, true]),
        (both.clone(), false, [false, false, true]),
        (unready, true, [true, false, false]),
        (both, true, [true, false, true]),
    ] {
        let service = service(json!({"spec": {"publishNotReadyAddresses": publish}}));
        let pods = vec![serving("a", "10.0.0.1").with(patch.clone())];
        let written = writes(observed(service, pods, vec![]));
        let [ready, serving, terminating] = expected;
        let conditions = json!({"ready": ready, "serving": serving, "terminating": terminating});
        assert_eq!(written[0].1["endpoints"][0]["conditions"], conditions, "{patch} {publish}");
    }
}

#[test]
fn pods_that_have_ended_or_have_no_address_have_no_endpoint() {
    let pods = vec![
        serving("a", "10.0.0.1").phase("Succeeded"),
        serving("b", "10.0.0.2").phase("Failed"),
        serving("c", "10.0.0.3").with(json!({"status": {"podIP": null, "podIPs": null}})),
    ];
    assert!(writes(observed(service(json!({})), pods, vec![]))[0].1["endpoints"].is_null());
}

#[test]
fn a_dual_stack_service_has_slices_of_both_types() {
    let dual = service(json!({"spec": {"ipFamilies": ["IPv6", "IPv4"]}}));
    let ips = json!({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}});
    let written = writes(observed(dual.clone(), vec![serving("a", "10.0.0.1").with(ips)], vec![]));
    let all: Vec<_> = written
        .iter()
        .map(|(_, slice)| {
            (slice["addressType"].as_str().unwrap(), slice["endpoints"][0]["addresses"][0].clone())
        })
        .collect();
    assert_eq!(all, [("IPv4", json!("10.0.0.1")), ("IPv6", json!("fd00::1"))]);

    // Slices of a family that the service no longer has are deleted.
    let slices = vec![
        stored("a4", json!([endpoint("a", "10.0.0.1", json!({}))]), json!({})),
        stored("a6", json!([endpoint("a", "fd00::1", json!({}))]), json!({"addressType": "IPv6"})),
    ];
    let written = writes(observed(service(json!({})), vec![serving("a", "10.0.0.1")], slices));
    assert_eq!(written, [("delete a6".to_owned(), Value::Null)]);
}

#[test]
fn pods_that_offer_other_ports_are_in_other_slices() {
    let named = json!({"spec": {"ports": [
        {"name": "http", "protocol": "TCP", "port": 80, "targetPort": "web"},
        {"name": "dns", "protocol": "UDP", "port": 53, "targetPort": 53},
    ]}});
    let offers = |port: i32| json!({"spec": {"containers": [{"name": "c", "ports": [{"name": "web", "protocol": "TCP", "containerPort": port}]}]}});
    let pods = vec![
        serving("a", "10.0.0.1").with(offers(8080)),
        serving("b", "10.0.0.2").with(offers(9090)),
        serving("c", "10.0.0.3"),
        serving("d", "10.0.0.4").with(offers(8080)),
    ];
    let written = writes(observed(service(named), pods, vec![]));
    let mut all: Vec<(Vec<i64>, Vec<&str>)> = written
        .iter()
        .map(|(_, slice)| {
            let mut ports: Vec<i64> = slice["ports"]
                .as_array()
                .unwrap()
                .iter()
                .map(|port| port["port"].as_i64().unwrap())
                .collect();
            ports.sort_unstable();
            let pods = slice["endpoints"].as_array().unwrap();
            (ports, pods.iter().map(|pod| pod["targetRef"]["name"].as_str().unwrap()).collect())
        })
        .collect();
    all.sort();
    assert_eq!(all, [(vec![53], vec!["c"]), (vec![53, 8080], vec!["a", "d"]), (vec![53, 9090], vec!["b"])]);
}

#[test]
fn a_headless_service_says_so_and_names_hosts() {
    let headless = service(json!({"spec": {"clusterIP": "None", "ports": null}}));
    let host = json!({"spec": {"hostname": "h", "subdomain": "web"}});
    let written = writes(observed(headless, vec![serving("a", "10.0.0.1").with(host)], vec![]));
    assert_eq!(written[0].1["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    assert_eq!(written[0].1["endpoints"][0]["hostname"], "h");
    assert!(written[0].1["ports"].is_null());
}

#[test]
fn a_pod_on_an_unknown_node_is_left_out_and_the_sync_fails() {
    let pods = || vec![serving("a", "10.0.0.1"), serving("b", "10.0.0.2").on("gone")];
    let mut seen = observed(service(json!({})), pods(), vec![]);
    let all = steps(&mut seen);
    let [Step::Create(slice), Step::Fail(why)] = &all[..] else { panic!("{all:?}") };
    assert_eq!(slice.endpoints.len(), 1);
    assert_eq!(why, "skipping Pod b for Service ns/web: Node gone Not Found");
    assert_eq!(seen.failure(), *why);
    let any_state = service(json!({"spec": {"publishNotReadyAddresses": true}}));
    let mut seen = observed(any_state, pods(), vec![]);
    let all = steps(&mut seen);
    let [Step::Create(slice)] = &all[..] else { panic!("{all:?}") };
    assert_eq!(slice.endpoints.len(), 2);
}

#[test]
fn slices_of_an_earlier_service_of_the_name_are_deleted() {
    let earlier = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "old"}]}});
    let slice = stored("old", json!([endpoint("a", "10.0.0.1", json!({}))]), earlier);
    let written = writes(observed(service(json!({})), vec![serving("a", "10.0.0.1")], vec![slice]));
    let verbs: Vec<_> = written.iter().map(|(verb, _)| verb.as_str()).collect();
    assert_eq!(verbs, ["create", "delete old"]);
}

#[test]
fn a_service_that_is_being_deleted_gets_no_new_slices() {
    let deleting = service(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    assert!(writes(observed(deleting, vec![serving("a", "10.0.0.1")], vec![])).is_empty());
}

#[test]
fn a_new_leader_confirms_its_cache_before_it_writes() {
    let pods = || vec![serving("a", "10.0.0.1")];
    let slice = stored("s", json!([endpoint("a", "10.0.0.1", json!({}))]), json!({}));
    let unsure =
        |pods, slices| Observed { grounds: Grounds::Unsure, ..observed(service(json!({})), pods, slices) };
    assert_eq!(plan(&unsure(pods(), vec![])), Plan::step(Step::Confirm));
    assert_eq!(plan(&unsure(vec![], vec![slice.clone()])), Plan::step(Step::Confirm));
    assert!(steps(&mut unsure(pods(), vec![slice.clone()])).is_empty(), "nothing is written");

    let mut lagging = unsure(pods(), vec![]);
    let current = observed(service(json!({})), vec![], vec![slice]).slices;
    lagging.absorb(Step::Confirm, StepResult::Done(Outcome::Slices(current)));
    assert!(writes(lagging).is_empty(), "the previous leader has made the slice");
}

#[test]
fn pods_that_all_offer_other_ports_get_a_slice_each() {
    const PODS: i32 = 2000;
    let named =
        || service(json!({"spec": {"ports": [{"name": "http", "protocol": "TCP", "targetPort": "web"}]}}));
    let pods = || -> Vec<Pod> {
        let container = |port: i32| json!({"name": "c", "ports": [{"name": "web", "protocol": "TCP", "containerPort": port}]});
        let pod = |port: i32| {
            let ip = format!("10.0.{}.{}", port / 200, port % 200);
            serving(&format!("p{port}"), &ip).spec(json!({"containers": [container(port)]}))
        };
        (1..=PODS).map(pod).collect()
    };
    let created = writes(observed(named(), pods(), vec![]));
    assert_eq!(created.len(), 2000);
    let slices = created.into_iter().enumerate().map(|(at, (_, slice))| {
        let identity =
            json!({"metadata": {"name": format!("s{at}"), "uid": format!("s{at}"), "resourceVersion": "7"}});
        let mut slice = slice;
        json_patch::merge(&mut slice, &identity);
        slice
    });
    assert!(writes(observed(named(), pods(), slices.collect())).is_empty());
}
