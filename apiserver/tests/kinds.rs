//! What each kind's objects are filled in with, and what they may not be.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use common::{APPLY, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, delete, get, patch, post, put};
use serde_json::{Value, json};
use steersman_apiserver::TestServer;
use steersman_testing::pod;

const PODS: &str = "/api/v1/namespaces/default/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const SERVICES: &str = "/api/v1/namespaces/default/services";

fn template() -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}})
}

fn workload() -> Value {
    let labels = json!({"app": "w"});
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    json!({"metadata": {"name": "w"}, "spec": {"selector": {"matchLabels": labels}, "template": template}})
}

#[track_caller]
fn check(object: &Value, expected: &[(&str, Value)]) {
    for (path, value) in expected {
        assert_eq!(object.pointer(path).unwrap_or(&Value::Null), value, "{path}");
    }
}

#[tokio::test]
async fn a_pod_is_filled_in() {
    let server = TestServer::start().await;
    let container = json!({
        "name": "c",
        "image": "registry:5000/i",
        "ports": [{"containerPort": 80}],
        "readinessProbe": {"httpGet": {"port": 80}},
        "resources": {"limits": {"cpu": "0.5", "memory": "1Gi"}},
    });
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [container], "volumes": [{"name": "v"}]}});
    let pod = post(&server, PODS, pod).await.expect(201);
    check(
        &pod,
        &[
            ("/spec/restartPolicy", json!("Always")),
            ("/spec/dnsPolicy", json!("ClusterFirst")),
            ("/spec/schedulerName", json!("default-scheduler")),
            ("/spec/terminationGracePeriodSeconds", json!(30)),
            ("/spec/enableServiceLinks", json!(true)),
            ("/spec/priority", json!(0)),
            ("/spec/containers/0/imagePullPolicy", json!("Always")),
            ("/spec/containers/0/ports/0/protocol", json!("TCP")),
            ("/spec/containers/0/readinessProbe/periodSeconds", json!(10)),
            ("/spec/containers/0/readinessProbe/httpGet/scheme", json!("HTTP")),
            ("/spec/containers/0/resources/requests", json!({"cpu": "500m", "memory": "1Gi"})),
            ("/spec/volumes/0/emptyDir", json!({})),
            ("/status", json!({"phase": "Pending", "qosClass": "Guaranteed"})),
        ],
    );
}

#[tokio::test]
async fn the_qos_class_follows_what_containers_ask_for() {
    let server = TestServer::start().await;
    for (name, resources, class) in [
        ("none", json!({}), "BestEffort"),
        ("some", json!({"requests": {"cpu": "1"}}), "Burstable"),
        ("half", json!({"limits": {"cpu": "1"}}), "Burstable"),
        ("all", json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed"),
        ("less", json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}), "Burstable"),
        ("zero", json!({"requests": {"cpu": "0"}}), "BestEffort"),
        ("other", json!({"limits": {"example.com/gpu": "1"}}), "BestEffort"),
    ] {
        let container = json!({"name": "c", "image": "i:1", "resources": resources});
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [container]}});
        let pod = post(&server, PODS, pod).await.expect(201);
        assert_eq!(pod["status"]["qosClass"], class, "{name}");
    }
    // What the pod asks for as a whole counts instead.
    let all = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    for (name, whole, container, class) in [
        ("whole", all.clone(), json!({}), "Guaranteed"),
        ("whole-some", json!({"requests": {"cpu": "2"}}), all.clone(), "Burstable"),
        ("whole-of-part", json!({"limits": {"memory": "1Gi"}}), json!({}), "Burstable"),
    ] {
        let container = json!({"name": "c", "image": "i:1", "resources": container});
        let spec = json!({"resources": whole, "containers": [container]});
        let pod = post(&server, PODS, json!({"metadata": {"name": name}, "spec": spec})).await.expect(201);
        assert_eq!(pod["status"]["qosClass"], class, "{name}");
    }
}

#[tokio::test]
async fn of_a_pods_spec_only_a_little_may_change() {
    let server = TestServer::start().await;
    let spec = json!({"containers": [{"name": "c", "image": "i:1"}]});
    post(&server, PODS, json!({"metadata": {"name": "p"}, "spec": spec})).await.expect(201);
    for (spec, code) in [
        (json!({"containers": [{"name": "c", "image": "i:2"}]}), 200),
        (json!({"activeDeadlineSeconds": 5}), 200),
        (json!({"containers": [{"name": "c", "image": "i:2", "command": ["x"]}]}), 422),
        (json!({"nodeName": "n"}), 422),
        (json!({"tolerations": []}), 200),
        (json!({"terminationGracePeriodSeconds": 1}), 422),
    ] {
        let content_type = common::STRATEGIC_PATCH;
        let answer = patch(&server, content_type, &format!("{PODS}/p"), json!({"spec": spec})).await;
        assert_eq!(answer.code, code, "{spec}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_job_is_filled_in_and_selects_its_own_pods() {
    let server = TestServer::start().await;
    let job = post(&server, JOBS, json!({"metadata": {"name": "j"}, "spec": {"template": template()}}))
        .await
        .expect(201);
    let uid = &job["metadata"]["uid"];
    let labels = json!({
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "job-name": "j",
    });
    check(
        &job,
        &[
            ("/spec/parallelism", json!(1)),
            ("/spec/completions", json!(1)),
            ("/spec/backoffLimit", json!(6)),
            ("/spec/completionMode", json!("NonIndexed")),
            ("/spec/suspend", json!(false)),
            ("/spec/manualSelector", json!(false)),
            ("/spec/podReplacementPolicy", json!("TerminatingOrFailed")),
            ("/spec/selector", json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})),
            ("/spec/template/metadata/labels", labels.clone()),
            ("/metadata/labels", labels),
            ("/metadata/generation", json!(1)),
        ],
    );
    let parallel = json!({"metadata": {"name": "k"}, "spec": {"parallelism": 3, "template": template()}});
    check(&post(&server, JOBS, parallel).await.expect(201), &[("/spec/completions", Value::Null)]);
}

#[tokio::test]
async fn a_job_that_makes_no_sense_is_refused_with_the_field() {
    let server = TestServer::start().await;
    let mut always = template();
    always["spec"]["restartPolicy"] = "Always".into();
    for (spec, message) in [
        (json!({}), "spec.template.spec.containers: Required value"),
        (
            json!({"template": always}),
            "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
        ),
        (
            json!({"template": template(), "parallelism": -1}),
            "spec.parallelism: Invalid value: -1: must be greater than",
        ),
        (
            json!({"template": template(), "completionMode": "Indexed"}),
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        (
            json!({"template": template(), "backoffLimitPerIndex": 1}),
            "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
        ),
        (
            json!({"template": template(), "selector": {"matchLabels": {"a": "b"}}}),
            "`selector` not auto-generated",
        ),
    ] {
        let indexed = spec["completionMode"] == "Indexed";
        let mut spec = spec;
        if indexed {
            spec["parallelism"] = 2.into();
        }
        let (code, _, text) =
            post(&server, JOBS, json!({"metadata": {"name": "j"}, "spec": spec})).await.refusal();
        assert_eq!(code, 422, "{spec}");
        assert!(text.contains(message), "{spec}: {text}");
    }
}

#[tokio::test]
async fn a_job_may_change_only_what_upstream_lets_change() {
    let server = TestServer::start().await;
    for (change, code) in [
        (json!({"parallelism": 5}), 200),
        (json!({"suspend": true}), 200),
        (json!({"ttlSecondsAfterFinished": 5}), 200),
        (json!({"completions": 5}), 422),
        (json!({"completionMode": "Indexed"}), 422),
        (json!({"selector": {"matchLabels": {"a": "b"}}}), 422),
        (json!({"template": {"spec": {"restartPolicy": "OnFailure"}}}), 422),
        (json!({"template": {"metadata": {"annotations": {"a": "b"}}}}), 422),
    ] {
        let job = json!({"metadata": {"generateName": "j"}, "spec": {"template": template()}});
        let name =
            post(&server, JOBS, job).await.expect(201)["metadata"]["name"].as_str().unwrap().to_owned();
        let answer = patch(&server, MERGE_PATCH, &format!("{JOBS}/{name}"), json!({"spec": change})).await;
        assert_eq!(answer.code, code, "{change}: {}", answer.text());
    }
    let suspended = json!({"metadata": {"name": "s"}, "spec": {"suspend": true, "template": template()}});
    post(&server, JOBS, suspended).await.expect(201);
    let placed = json!({"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}});
    patch(&server, MERGE_PATCH, &format!("{JOBS}/s"), placed).await.expect(200);
    let elastic =
        json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": template()});
    post(&server, JOBS, json!({"metadata": {"name": "e"}, "spec": elastic})).await.expect(201);
    let path = format!("{JOBS}/e");
    patch(&server, MERGE_PATCH, &path, json!({"spec": {"completions": 3}})).await.expect(422);
    patch(&server, MERGE_PATCH, &path, json!({"spec": {"completions": 3, "parallelism": 3}}))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_jobs_status_is_held_to_upstreams_rules() {
    let server = TestServer::start().await;
    post(&server, JOBS, json!({"metadata": {"name": "j"}, "spec": {"template": template()}}))
        .await
        .expect(201);
    let start = "2026-01-01T00:00:00Z";
    let end = "2026-01-01T00:00:05Z";
    let condition = |name: &str| json!({"type": name, "status": "True"});
    let (met, complete) = (condition("SuccessCriteriaMet"), condition("Complete"));
    for (status, expected) in [
        (json!({"startTime": start, "active": 1, "ready": 1}), None),
        (json!({"ready": 2}), Some("cannot set more ready pods than active")),
        (json!({"startTime": end}), Some("field is immutable for unsuspended job once set")),
        (json!({"completedIndexes": "0"}), Some("cannot set non-empty completedIndexes when non-indexed")),
        (json!({"conditions": [complete]}), Some("without the SuccessCriteriaMet=true condition")),
        (json!({"conditions": [met, complete], "active": 0, "ready": 0}), Some("completionTime is required")),
        (json!({"conditions": [condition("Failed")]}), Some("without the FailureTarget=true condition")),
        (
            json!({"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a"]}}),
            Some("status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\""),
        ),
        (
            json!({"conditions": [met, complete], "active": 0, "ready": 0, "succeeded": 1, "completionTime": end}),
            None,
        ),
        (json!({"succeeded": 0}), Some("cannot decrease the succeeded counter")),
        (json!({"conditions": []}), Some("cannot disable the terminal Complete=True condition")),
        (json!({"active": 1}), Some("active>0 is invalid for finished job")),
    ] {
        let answer =
            patch(&server, MERGE_PATCH, &format!("{JOBS}/j/status"), json!({"status": status})).await;
        match expected {
            None => assert_eq!(answer.code, 200, "{status}: {}", answer.text()),
            Some(message) => {
                let (code, _, text) = answer.refusal();
                assert!(code == 422 && text.contains(message), "{status}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn services_get_addresses_and_ports_of_their_own() {
    let server = TestServer::start().await;
    let service = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let ports = json!([{"port": 80}]);
    let selector = json!({"a": "b"});
    let plain = service("a", json!({"ports": ports, "selector": selector}));
    let plain = post(&server, SERVICES, plain).await.expect(201);
    check(
        &plain,
        &[
            ("/spec/type", json!("ClusterIP")),
            ("/spec/clusterIPs", json!([plain["spec"]["clusterIP"]])),
            ("/spec/ipFamilies", json!(["IPv4"])),
            ("/spec/ipFamilyPolicy", json!("SingleStack")),
            ("/spec/internalTrafficPolicy", json!("Cluster")),
            ("/spec/sessionAffinity", json!("None")),
            ("/spec/ports/0", json!({"port": 80, "targetPort": 80, "protocol": "TCP"})),
        ],
    );
    let node_port = service("b", json!({"type": "NodePort", "ports": ports}));
    let node_port = post(&server, SERVICES, node_port).await.expect(201);
    assert_ne!(node_port["spec"]["clusterIP"], plain["spec"]["clusterIP"]);
    assert!((30_000..32_768).contains(&node_port["spec"]["ports"][0]["nodePort"].as_i64().unwrap()));
    let headless = service("c", json!({"clusterIP": "None", "selector": selector}));
    check(&post(&server, SERVICES, headless).await.expect(201), &[("/spec/clusterIPs", json!(["None"]))]);
    let external = service("d", json!({"type": "ExternalName", "externalName": "a.b"}));
    check(&post(&server, SERVICES, external).await.expect(201), &[("/spec/clusterIP", Value::Null)]);
    // A PUT that does not name what was given out keeps it.
    let kept =
        put(&server, &format!("{SERVICES}/a"), service("a", json!({"ports": ports}))).await.expect(200);
    assert_eq!(kept["spec"]["clusterIP"], plain["spec"]["clusterIP"]);
    let moved = json!({"spec": {"clusterIP": "10.0.0.99"}});
    let (code, _, message) = patch(&server, MERGE_PATCH, &format!("{SERVICES}/a"), moved).await.refusal();
    assert_eq!(code, 422);
    assert!(
        message.contains("spec.clusterIPs[0]: Invalid value: [\"10.0.0.99\"]: may not change once set"),
        "{message}"
    );
    let two = service("e", json!({"ports": [{"port": 80}, {"port": 81}]}));
    let (code, _, message) = post(&server, SERVICES, two).await.refusal();
    assert_eq!(code, 422);
    assert!(message.contains("spec.ports[0].name: Required value"), "{message}");
}

#[tokio::test]
async fn workloads_are_filled_in_and_their_selectors_stay() {
    let server = TestServer::start().await;
    for (plural, expected) in [
        (
            "deployments",
            vec![
                ("/spec/replicas", json!(1)),
                ("/spec/strategy/rollingUpdate", json!({"maxSurge": "25%", "maxUnavailable": "25%"})),
                ("/spec/progressDeadlineSeconds", json!(600)),
            ],
        ),
        ("replicasets", vec![("/spec/replicas", json!(1))]),
        (
            "statefulsets",
            vec![
                ("/spec/podManagementPolicy", json!("OrderedReady")),
                ("/spec/updateStrategy/rollingUpdate/partition", json!(0)),
            ],
        ),
        (
            "daemonsets",
            vec![("/spec/updateStrategy/rollingUpdate", json!({"maxSurge": 0, "maxUnavailable": 1}))],
        ),
    ] {
        let path = format!("/apis/apps/v1/namespaces/default/{plural}");
        check(&post(&server, &path, workload()).await.expect(201), &expected);
        let mut other = workload();
        for pointer in ["/spec/selector/matchLabels/app", "/spec/template/metadata/labels/app"] {
            *other.pointer_mut(pointer).unwrap() = "other".into();
        }
        let answer = put(&server, &format!("{path}/w"), other.clone()).await;
        assert_eq!(answer.code, 422, "{plural}: {}", answer.text());
        other["spec"]["selector"]["matchLabels"]["app"] = "third".into();
        other["metadata"]["name"] = "x".into();
        let (code, _, message) = post(&server, &path, other).await.refusal();
        assert_eq!(code, 422);
        assert!(message.contains("`selector` does not match template `labels`"), "{plural}: {message}");
    }
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SCALE: &str = "/apis/apps/v1/namespaces/default/deployments/w/scale";

/// A server with the Deployment of [`workload`].
async fn with_workload() -> TestServer {
    let server = TestServer::start().await;
    post(&server, DEPLOYMENTS, workload()).await.expect(201);
    server
}

/// Checks that nothing has scaled the Deployment.
async fn is_unscaled(server: &TestServer) {
    let deployment = get(server, &format!("{DEPLOYMENTS}/w")).await.expect(200);
    check(&deployment, &[("/spec/replicas", json!(1)), ("/metadata/generation", json!(1))]);
}

#[tokio::test]
async fn replicas_are_read_and_written_as_a_scale() {
    let server = with_workload().await;
    let scale = get(&server, SCALE).await.expect(200);
    check(
        &scale,
        &[("/kind", json!("Scale")), ("/spec/replicas", json!(1)), ("/status/selector", json!("app=w"))],
    );
    patch(&server, MERGE_PATCH, SCALE, json!({"spec": {"replicas": 4}})).await.expect(200);
    let deployment = get(&server, &format!("{DEPLOYMENTS}/w")).await.expect(200);
    check(&deployment, &[("/spec/replicas", json!(4)), ("/metadata/generation", json!(2))]);
    put(&server, SCALE, scale.clone()).await.expect(409);
    patch(&server, MERGE_PATCH, SCALE, json!({"spec": {"replicas": -1}})).await.expect(422);
    // A Scale with the UID of another object is refused.
    let uid = scale["metadata"]["uid"].as_str().unwrap();
    let why = format!("Precondition failed: UID in precondition: other, UID in object meta: {uid}");
    let of_other = json!({"metadata": {"name": "w", "uid": "other"}, "spec": {"replicas": 2}});
    let (code, _, message) = put(&server, SCALE, of_other.clone()).await.refusal();
    let stored = "StorageError: invalid object, Code: 4, Key: /registry/deployments/default/w, ResourceVersion: 0, \
         AdditionalErrorMsg: ";
    let expected = format!("Operation cannot be fulfilled on deployments.apps \"w\": {stored}{why}");
    assert_eq!((code, message), (409, expected));
    let (code, _, message) = patch(&server, MERGE_PATCH, SCALE, of_other).await.refusal();
    let expected = format!("Operation cannot be fulfilled on deployments/scale.apps \"w\": {why}");
    assert_eq!((code, message), (409, expected));
}

#[tokio::test]
async fn a_scale_of_another_form_scales_nothing() {
    let server = with_workload().await;
    let scale = |replicas: &Value| json!({"metadata": {"name": "w"}, "spec": {"replicas": replicas}});
    let beyond = [json!(2_147_483_648_i64), json!(-2_147_483_649_i64), json!(1e20), json!(1.5)];
    for replicas in beyond.into_iter().chain([json!("3"), json!(true), json!([1]), json!({})]) {
        let (code, _, message) = put(&server, SCALE, scale(&replicas)).await.refusal();
        assert_eq!(code, 400, "{replicas}: {message}");
        let start = "Scale in version \"v1\" cannot be handled as a Scale: spec.replicas: cannot unmarshal ";
        assert!(message.starts_with(start), "{replicas}: {message}");
        let operations = json!([{"op": "replace", "path": "/spec/replicas", "value": replicas}]);
        let patches = [(MERGE_PATCH, scale(&replicas)), (STRATEGIC_PATCH, scale(&replicas))];
        for (kind, body) in patches.into_iter().chain([(JSON_PATCH, operations)]) {
            let (code, _, message) = patch(&server, kind, SCALE, body).await.refusal();
            assert_eq!(code, 422, "{kind}, {replicas}: {message}");
            assert!(message.contains("spec.replicas: cannot unmarshal "), "{kind}, {replicas}: {message}");
            assert!(!message.contains("managedFields"), "{kind}, {replicas}: {message}");
        }
    }
    let config = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 1.5},
    });
    let applied = patch(&server, APPLY, &format!("{SCALE}?fieldManager=m&force=true"), config).await;
    let (code, _, message) = applied.refusal();
    let start = "failed to convert new object (/w; autoscaling/v1, Kind=Scale) to proper version: ";
    assert_eq!((code, message.starts_with(start)), (500, true), "{message}");
    let of_other_kind = json!({"kind": "Deployment", "spec": {"replicas": 2}});
    patch(&server, MERGE_PATCH, SCALE, of_other_kind).await.expect(422);
    put(&server, SCALE, json!({"metadata": 7})).await.expect(400);
    is_unscaled(&server).await;
}

#[tokio::test]
async fn a_scale_of_another_name_or_namespace_scales_nothing() {
    let server = with_workload().await;
    for (metadata, expected) in [
        (json!({"name": "v"}), "the name of the object (v) does not match the name on the URL (w)"),
        (json!(null), "the name of the object (w based on URL) was undeterminable: name must be provided"),
        (
            json!({"name": "w", "namespace": "other"}),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ] {
        let scale = json!({"metadata": metadata, "spec": {"replicas": 2}});
        for answer in
            [put(&server, SCALE, scale.clone()).await, patch(&server, MERGE_PATCH, SCALE, scale).await]
        {
            let (code, _, message) = answer.refusal();
            assert_eq!((code, &*message), (400, expected), "{metadata}");
        }
    }
    is_unscaled(&server).await;
}

#[tokio::test]
async fn clients_learn_of_members_that_a_scale_does_not_have() {
    let server = with_workload().await;
    let scale = json!({"metadata": {"name": "w"}, "spec": {"replicas": 2, "replica": 3}});
    let strict = format!("{SCALE}?fieldValidation=Strict");
    let (code, _, message) = put(&server, &strict, scale.clone()).await.refusal();
    let expected = "Scale in version \"v1\" cannot be handled as a Scale: strict decoding error: unknown field \"spec.replica\"";
    assert_eq!((code, &*message), (400, expected));
    let (code, _, message) = patch(&server, MERGE_PATCH, &strict, scale.clone()).await.refusal();
    assert_eq!(
        (code, message.ends_with("strict decoding error: unknown field \"spec.replica\"")),
        (422, true)
    );
    for answer in [put(&server, SCALE, scale.clone()).await, patch(&server, MERGE_PATCH, SCALE, scale).await]
    {
        assert_eq!(answer.headers["warning"], "299 - \"unknown field \\\"spec.replica\\\"\"");
        check(&answer.expect(200), &[("/spec", json!({"replicas": 2}))]);
    }
}

#[tokio::test]
async fn a_scale_omits_zero_replicas_in_its_spec() {
    let server = TestServer::start().await;
    let mut none = workload();
    none["spec"]["replicas"] = 0.into();
    post(&server, &format!("{DEPLOYMENTS}?fieldManager=a"), none).await.expect(201);
    let scale = get(&server, SCALE).await.expect(200);
    check(&scale, &[("/spec", json!({})), ("/status/replicas", json!(0))]);
    // As upstream: manager `a` still owns the field, in an entry of its own.
    let zero = json!({"metadata": {"name": "w"}, "spec": {"replicas": 0}});
    put(&server, &format!("{SCALE}?fieldManager=b"), zero).await.expect(200);
    let after = get(&server, &format!("{DEPLOYMENTS}/w")).await.expect(200);
    let entries = after["metadata"]["managedFields"].as_array().unwrap();
    let managers: Vec<_> =
        entries.iter().map(|entry| (&entry["manager"], &entry["fieldsV1"]["f:spec"]["f:replicas"])).collect();
    assert_eq!(managers, [(&json!("a"), &json!({})), (&json!("a"), &Value::Null)]);
    let two = json!([{"op": "replace", "path": "/spec/replicas", "value": 2}]);
    check(&patch(&server, JSON_PATCH, SCALE, two).await.expect(200), &[("/spec", json!({"replicas": 2}))]);
}

#[tokio::test]
async fn a_binding_puts_a_pod_on_a_node_once() {
    let server = TestServer::start().await;
    post(&server, PODS, pod("p").build()).await.expect(201);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let path = format!("{PODS}/p/binding");
    assert_eq!(post(&server, &path, binding.clone()).await.expect(201)["status"], "Success");
    let pod = get(&server, &format!("{PODS}/p")).await.expect(200);
    check(
        &pod,
        &[
            ("/spec/nodeName", json!("n")),
            ("/status/conditions/0/type", json!("PodScheduled")),
            ("/metadata/generation", json!(1)),
        ],
    );
    let (code, _, message) = post(&server, &path, binding).await.refusal();
    assert_eq!(code, 409);
    assert!(message.contains("pod p is already assigned to node \"n\""), "{message}");
    post(&server, &format!("{PODS}/p/eviction"), json!({"metadata": {"name": "p"}})).await.expect(201);
    let going = get(&server, &format!("{PODS}/p")).await.expect(200);
    assert!(going["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test]
async fn a_binding_holds_for_the_pod_that_it_means_when_that_may_be_placed() {
    let server = TestServer::start().await;
    let pod = |name: &str, gates: Value| {
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "schedulingGates": gates});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let made = post(&server, PODS, pod("p", json!([]))).await.expect(201);
    let (uid, version) =
        (made["metadata"]["uid"].as_str().unwrap(), made["metadata"]["resourceVersion"].as_str().unwrap());
    post(&server, PODS, pod("gated", json!([{"name": "example.com/g"}]))).await.expect(201);
    let stored = "Operation cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4, \
         Key: /registry/pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: ";
    let node = json!({"name": "n"});
    for (metadata, target, expected) in [
        (
            json!({"name": "p", "uid": "other", "resourceVersion": "1"}),
            &node,
            (409, format!("{stored}UID in precondition: other, UID in object meta: {uid}")),
        ),
        (
            json!({"name": "p", "resourceVersion": "1"}),
            &node,
            (409, format!("{stored}ResourceVersion in precondition: 1, ResourceVersion in object meta: {version}")),
        ),
        (
            json!({"name": "gated"}),
            &node,
            (
                409,
                "Operation cannot be fulfilled on pods/binding \"gated\": pod gated has non-empty \
                 .spec.schedulingGates"
                    .to_owned(),
            ),
        ),
        (
            json!({"name": "p"}),
            &json!({"kind": "Pod"}),
            (
                500,
                "[target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\", target.name: \
                 Required value]"
                    .to_owned(),
            ),
        ),
        (json!({"name": "p"}), &json!({}), (500, "target.name: Required value".to_owned())),
    ] {
        let path = format!("{PODS}/{}/binding", metadata["name"].as_str().unwrap());
        let binding = json!({"metadata": metadata, "target": target});
        let (code, _, message) = post(&server, &path, binding.clone()).await.refusal();
        assert_eq!((code, message), expected, "{binding}");
    }
    // A node that was nominated before is so no more, and every later status may be written.
    let status = format!("{PODS}/p/status");
    let nominated = json!({"status": {"nominatedNodeName": "other"}});
    patch(&server, MERGE_PATCH, &status, nominated.clone()).await.expect(200);
    let binding = json!({"metadata": {"name": "p", "uid": uid}, "target": node});
    post(&server, &format!("{PODS}/p/binding"), binding).await.expect(201);
    let bound =
        patch(&server, MERGE_PATCH, &status, json!({"status": {"phase": "Running"}})).await.expect(200);
    assert_eq!(bound["status"].get("nominatedNodeName"), None);
    let (code, _, message) = patch(&server, MERGE_PATCH, &status, nominated).await.refusal();
    let why = "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node";
    assert_eq!((code, message), (422, format!("Pod \"p\" is invalid: {why}")));
}

#[tokio::test]
async fn how_long_a_pod_tolerates_may_change_and_nothing_else_of_it() {
    let server = TestServer::start().await;
    let toleration = |key: &str, seconds: i64| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    let bears = |tolerations: Value| json!({"spec": {"tolerations": tolerations}});
    let mut pod = bears(json!([toleration("a", 5)]));
    pod["metadata"] = json!({"name": "p"});
    pod["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
    let made = post(&server, PODS, pod).await.expect(201);
    let path = format!("{PODS}/p");
    let mut tolerations = made["spec"]["tolerations"].clone();
    tolerations[0] = toleration("a", 60);
    let changed = patch(&server, MERGE_PATCH, &path, bears(tolerations.clone())).await.expect(200);
    assert_eq!(changed["spec"]["tolerations"][0], toleration("a", 60));
    tolerations[0] = toleration("b", 60);
    let (code, _, message) = patch(&server, MERGE_PATCH, &path, bears(tolerations)).await.refusal();
    let why = "existing toleration can not be modified except its tolerationSeconds";
    assert_eq!((code, message), (422, format!("Pod \"p\" is invalid: spec.tolerations: Forbidden: {why}")));
}

#[tokio::test]
async fn what_is_promised_but_not_served_says_so() {
    let server = TestServer::start().await;
    let path = "/api/v1/namespaces/default/bindings";
    let (code, reason, message) = post(&server, path, json!({})).await.refusal();
    assert_eq!((code, reason.as_str()), (501, "NotImplemented"));
    assert!(message.starts_with("this server does not implement create of "), "{message}");
}

#[tokio::test]
async fn a_defined_custom_resource_is_served_at_once_and_gone_with_its_definition() {
    let server = TestServer::start().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let foos = "/apis/example.com/v1/namespaces/default/foos";
    assert_eq!(get(&server, foos).await.code, 404);
    let definition = json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let created = post(&server, definitions, definition).await.expect(201);
    check(&created, &[("/status/conditions/1/type", json!("Established"))]);
    let foo = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"}, "spec": {"a": 1}, "status": {"x": 1}});
    let foo = post(&server, foos, foo).await.expect(201);
    check(&foo, &[("/status", Value::Null), ("/metadata/generation", json!(1))]);
    let changed = json!({"spec": {"a": 2}, "status": {"x": 2}});
    let foo = patch(&server, MERGE_PATCH, &format!("{foos}/f"), changed.clone()).await.expect(200);
    check(&foo, &[("/status", Value::Null), ("/metadata/generation", json!(2))]);
    let foo = patch(&server, MERGE_PATCH, &format!("{foos}/f/status"), changed).await.expect(200);
    check(&foo, &[("/status/x", json!(2)), ("/metadata/generation", json!(2))]);
    assert_eq!(patch(&server, common::STRATEGIC_PATCH, &format!("{foos}/f"), json!({})).await.code, 415);
    assert_eq!(get(&server, foos).await.expect(200)["items"][0]["kind"], "Foo");
    let mut events = common::Events::of(&server, &format!("{foos}?watch=1")).await;
    assert_eq!(events.brief().await, "ADDED f");
    delete(&server, &format!("{definitions}/foos.example.com"), Value::Null).await.expect(200);
    assert_eq!(events.brief().await, "DELETED f");
    assert_eq!(get(&server, foos).await.code, 404);
}

#[tokio::test]
async fn discovery_tells_what_is_served() {
    let server = TestServer::start().await;
    let discovery = kube::Discovery::new(server.client()).run().await.unwrap();
    let group = discovery.groups().find(|group| group.name() == "batch").unwrap();
    let (job, capabilities) = group.recommended_kind("Job").unwrap();
    assert_eq!((job.plural.as_str(), job.version.as_str()), ("jobs", "v1"));
    assert!(capabilities.supports_operation("watch"));
    let aggregated = kube::Discovery::new(server.client()).run_aggregated().await.unwrap();
    assert_eq!(aggregated.groups().count(), discovery.groups().count());
    assert_eq!(server.client().apiserver_version().await.unwrap().git_version, "v1.36.3");
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(get(&server, path).await.text(), "ok");
    }
}

#[tokio::test]
async fn addresses_and_health_check_ports_are_not_given_out_twice() {
    let server = TestServer::start().await;
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str, mut spec: Value| {
        spec["ports"] = json!([{"port": 80}]);
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let of_balancer = |port: i64| {
        json!({
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": port,
            "allocateLoadBalancerNodePorts": false,
        })
    };
    post(&server, services, service("a", json!({"clusterIP": "10.0.0.7"}))).await.expect(201);
    post(&server, services, service("b", of_balancer(31_000))).await.expect(201);
    let internal = "Internal error occurred: failed to allocate requested HealthCheck NodePort";
    for (spec, code, message) in [
        (
            json!({"clusterIPs": ["10.0.0.7"]}),
            422,
            "Service \"c\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.7\"]: must be empty when \
             `clusterIP` is not specified"
                .to_owned(),
        ),
        (
            json!({"clusterIP": "10.0.0.8", "clusterIPs": ["10.0.0.7"]}),
            422,
            "Service \"c\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.7\"]: first value must match \
             `clusterIP`"
                .to_owned(),
        ),
        (of_balancer(31_000), 500, format!("{internal} 31000: provided port is already allocated")),
        (
            of_balancer(80),
            500,
            format!("{internal} 80: provided port is not in the valid range. The range of valid ports is 30000-32767"),
        ),
        (
            json!({"healthCheckNodePort": 31_001}),
            422,
            "Service \"c\" is invalid: spec.healthCheckNodePort: Invalid value: 31001: may only be set when `type` is \
             'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
                .to_owned(),
        ),
    ] {
        let (found, _, said) = post(&server, services, service("c", spec.clone())).await.refusal();
        assert_eq!((found, said), (code, message), "{spec}");
    }
    let unsaid = json!({"spec": {"healthCheckNodePort": 0}});
    let same = patch(&server, MERGE_PATCH, &format!("{services}/b"), unsaid).await.expect(200);
    assert_eq!(same["spec"]["healthCheckNodePort"], 31_000);
    let change = json!({"spec": {"healthCheckNodePort": 31_002}});
    let (code, _, said) = patch(&server, MERGE_PATCH, &format!("{services}/b"), change).await.refusal();
    let why = "Service \"b\" is invalid: spec.healthCheckNodePort: Forbidden: field is immutable";
    assert_eq!((code, said.as_str()), (422, why));
}

#[tokio::test]
async fn what_nobody_would_go_by_is_refused_and_so_is_a_change_to_it() {
    const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
    let server = TestServer::start().await;
    let hooks = format!("{GROUP}/validatingwebhookconfigurations");
    let hook = json!([{
        "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://example.com"},
    }]);
    let refused = |resource: &str, why: &str| {
        (
            501,
            "NotImplemented".to_owned(),
            format!("{resource} \"a\" would have no effect: this server {why}"),
        )
    };
    let answer = post(&server, &hooks, json!({"metadata": {"name": "a"}, "webhooks": hook})).await;
    let no_hooks = refused(
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "calls no admission webhooks",
    );
    assert_eq!(answer.refusal(), no_hooks);
    post(&server, &hooks, json!({"metadata": {"name": "a"}})).await.expect(201);
    let change = json!({"webhooks": hook});
    assert_eq!(patch(&server, MERGE_PATCH, &format!("{hooks}/a"), change).await.refusal(), no_hooks);
    let mut ignored = hook.clone();
    ignored[0]["failurePolicy"] = "Ignore".into();
    let answer = post(&server, &hooks, json!({"metadata": {"name": "b"}, "webhooks": ignored})).await;
    assert!(answer.headers["warning"].to_str().unwrap().contains("calls no admission webhooks"));
    answer.expect(201);

    let bindings = format!("{GROUP}/validatingadmissionpolicybindings");
    let binding =
        json!({"metadata": {"name": "a"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    let resource = "validatingadmissionpolicybindings.admissionregistration.k8s.io";
    let no_policies = refused(resource, "evaluates no admission policies");
    assert_eq!(post(&server, &bindings, binding).await.refusal(), no_policies);

    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let spec = json!({
        "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
        "service": {"namespace": "kube-system", "name": "metrics-server"},
    });
    let no_others =
        refused("apiservices.apiregistration.k8s.io", "passes no requests on to other API servers");
    let service = json!({"metadata": {"name": "a"}, "spec": spec});
    assert_eq!(post(&server, services, service).await.refusal(), no_others);

    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let namespace = json!({"metadata": {"name": "a", "labels": labels}});
    let answer = post(&server, "/api/v1/namespaces", namespace).await;
    assert!(answer.headers["warning"].to_str().unwrap().contains("does not enforce pod security"));
    answer.expect(201);

    let levels = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
    let level = json!({"metadata": {"name": "a"}, "spec": {"type": "Exempt"}});
    let answer = post(&server, levels, level).await;
    let warning = answer.headers["warning"].to_str().unwrap().to_owned();
    assert!(warning.contains("flow control has no effect"), "{warning}");
    answer.expect(201);
}
