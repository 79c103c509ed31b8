//! The definitions of custom resources.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

mod common;

use common::{MERGE_PATCH, delete, get, patch, post};
use serde_json::{Value, json};
use steersman_apiserver::TestServer;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const KNOBS: &str = "/apis/example.com/v1/namespaces/default/knobs";

fn definition(group: &str, plural: &str, kind: &str) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

#[tokio::test]
async fn a_definition_goes_when_the_last_of_its_objects_has_gone() {
    let server = TestServer::start().await;
    post(&server, DEFINITIONS, definition("example.com", "knobs", "Knob")).await.expect(201);
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    let typed = |mut knob: Value| {
        knob["apiVersion"] = "example.com/v1".into();
        knob["kind"] = "Knob".into();
        knob
    };
    post(&server, KNOBS, typed(held)).await.expect(201);
    post(&server, KNOBS, typed(json!({"metadata": {"name": "free"}}))).await.expect(201);
    let path = format!("{DEFINITIONS}/knobs.example.com");
    let going = delete(&server, &path, Value::Null).await.expect(200);
    assert_eq!(going["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(going["status"]["conditions"][2]["reason"], "InstanceDeletionPending");
    let left = get(&server, KNOBS).await.expect(200);
    assert_eq!(common::names(&left), ["held"]);
    assert!(left["items"][0]["metadata"]["deletionTimestamp"].is_string());
    let (code, _, message) =
        post(&server, KNOBS, typed(json!({"metadata": {"name": "new"}}))).await.refusal();
    assert_eq!(code, 403, "{message}");
    delete(&server, &path, Value::Null).await.expect(200);

    patch(&server, MERGE_PATCH, &format!("{KNOBS}/held"), json!({"metadata": {"finalizers": null}}))
        .await
        .expect(200);
    assert_eq!(get(&server, &path).await.code, 404);
    assert_eq!(get(&server, KNOBS).await.code, 404);
    // Another of the name begins anew.
    post(&server, DEFINITIONS, definition("example.com", "knobs", "Knob")).await.expect(201);
    assert!(common::names(&get(&server, KNOBS).await.expect(200)).is_empty());
}

#[tokio::test]
async fn no_definition_takes_the_place_of_what_is_built_in() {
    let server = TestServer::start().await;
    let (code, _, message) =
        post(&server, DEFINITIONS, definition("apps", "deployments", "Deployment")).await.refusal();
    assert_eq!(code, 422);
    assert!(
        message.contains("spec.group: Invalid value: \"apps\": should be a domain with at least one dot"),
        "{message}"
    );

    let mut classes = definition("scheduling.k8s.io", "priorityclasses", "PriorityClass");
    let (code, _, message) = post(&server, DEFINITIONS, classes.clone()).await.refusal();
    assert_eq!(code, 422);
    let missing = "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval \
        annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
    assert!(message.contains(missing), "{message}");
    classes["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a trial"});
    let (code, _, message) = post(&server, DEFINITIONS, classes).await.refusal();
    assert_eq!(code, 422);
    assert!(message.contains("must not be the name of a resource that is built in"), "{message}");
    // The same table by another cut of its name.
    let cut = definition("k8s.io", "priorityclasses.scheduling", "PriorityClass");
    let (code, _, message) = post(&server, DEFINITIONS, cut).await.refusal();
    assert_eq!(code, 422);
    assert!(
        message.contains("spec.names.plural: Invalid value: \"priorityclasses.scheduling\": a DNS-1035"),
        "{message}"
    );
}

#[tokio::test]
async fn approval_is_asked_for_once() {
    let server = TestServer::start().await;
    let mut gateways = definition("gateway.networking.k8s.io", "gateways", "Gateway");
    for (said, code) in [("soon", 422), ("https://example.com/1", 201)] {
        gateways["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": said});
        assert_eq!(post(&server, DEFINITIONS, gateways.clone()).await.code, code, "{said}");
    }
    let path = format!("{DEFINITIONS}/gateways.gateway.networking.k8s.io");
    let without = json!({"metadata": {"annotations": null}});
    assert_eq!(patch(&server, MERGE_PATCH, &path, without).await.code, 422);
    let unapproved = json!({"metadata": {"annotations": {"api-approved.kubernetes.io": "unapproved"}}});
    patch(&server, MERGE_PATCH, &path, unapproved).await.expect(200);
}

#[tokio::test]
async fn what_the_objects_depend_on_does_not_change() {
    let server = TestServer::start().await;
    post(&server, DEFINITIONS, definition("example.com", "knobs", "Knob")).await.expect(201);
    let path = format!("{DEFINITIONS}/knobs.example.com");
    for (field, change) in [
        ("spec.scope", json!({"spec": {"scope": "Cluster"}})),
        ("spec.names.kind", json!({"spec": {"names": {"kind": "Button"}}})),
        ("spec.names.plural", json!({"spec": {"names": {"plural": "buttons"}}})),
        ("spec.group", json!({"spec": {"group": "example.org"}})),
    ] {
        let (code, _, message) = patch(&server, MERGE_PATCH, &path, change).await.refusal();
        assert_eq!(code, 422, "{field}");
        assert!(
            message.contains(&format!("{field}: Invalid value")) && message.contains("field is immutable"),
            "{message}"
        );
    }
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let both = json!({"spec": {"versions": [version("v1", false), version("v2", true)], "names": {"shortNames": ["kn"]}}});
    let changed = patch(&server, MERGE_PATCH, &path, both).await.expect(200);
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(changed["status"]["acceptedNames"]["shortNames"], json!(["kn"]));
    let only = json!({"spec": {"versions": [version("v2", true)]}});
    let (code, _, message) = patch(&server, MERGE_PATCH, &path, only).await.refusal();
    assert_eq!(code, 422);
    assert!(
        message.contains("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions"),
        "{message}"
    );
}
