//! Patches of all three kinds.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use common::{JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, get, patch, post};
use serde_json::{Value, json};
use steersman_apiserver::TestServer;

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn server_with_pod() -> TestServer {
    let server = TestServer::start().await;
    let pod = json!({
        "metadata": {"name": "p", "finalizers": ["a.b/c", "d.e/f"], "labels": {"x": "1", "y": "2"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "i:1"}]},
    });
    post(&server, PODS, pod).await.expect(201);
    server
}

#[tokio::test]
async fn each_kind_of_patch_changes_what_it_says() {
    for (content_type, body, path, expected) in [
        (
            JSON_PATCH,
            json!([{"op": "remove", "path": "/metadata/labels/x"}]),
            "/metadata/labels",
            json!({"y": "2"}),
        ),
        (
            MERGE_PATCH,
            json!({"metadata": {"labels": {"x": null, "z": "3"}}}),
            "/metadata/labels",
            json!({"y": "2", "z": "3"}),
        ),
        (
            MERGE_PATCH,
            json!({"metadata": {"finalizers": ["a.b/c"]}}),
            "/metadata/finalizers",
            json!(["a.b/c"]),
        ),
        (
            STRATEGIC_PATCH,
            json!({"metadata": {"labels": {"x": null}}}),
            "/metadata/labels",
            json!({"y": "2"}),
        ),
        (
            STRATEGIC_PATCH,
            json!({"metadata": {"finalizers": ["g.h/i"]}}),
            "/metadata/finalizers",
            json!(["g.h/i", "a.b/c", "d.e/f"]),
        ),
        (
            STRATEGIC_PATCH,
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}}),
            "/metadata/finalizers",
            json!(["d.e/f"]),
        ),
        (
            STRATEGIC_PATCH,
            json!({"spec": {"containers": [{"name": "d", "image": "i:2"}]}}),
            "/spec/containers/1/image",
            json!("i:2"),
        ),
    ] {
        let server = server_with_pod().await;
        let patched = patch(&server, content_type, &format!("{PODS}/p"), body.clone()).await.expect(200);
        assert_eq!(patched.pointer(path).unwrap(), &expected, "{body}");
    }
}

#[tokio::test]
async fn conditions_are_merged_by_type_and_deleted_by_directive() {
    let server = server_with_pod().await;
    let path = format!("{PODS}/p/status");
    let types = |pod: &Value| -> Vec<String> {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().map(|c| c["type"].as_str().unwrap().to_owned()).collect()
    };
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    patch(&server, STRATEGIC_PATCH, &path, ready).await.expect(200);
    let other = json!({"status": {"conditions": [{"type": "X", "status": "True"}]}});
    assert_eq!(types(&patch(&server, STRATEGIC_PATCH, &path, other).await.expect(200)), ["X", "Ready"]);
    let gone = json!({"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}});
    assert_eq!(types(&patch(&server, STRATEGIC_PATCH, &path, gone).await.expect(200)), ["X"]);
}

#[tokio::test]
async fn to_replace_a_member_that_an_object_lacks_is_to_add_it() {
    let server = server_with_pod().await;
    let replace = |path: &str| json!([{"op": "replace", "path": path, "value": "b"}]);
    let path = format!("{PODS}/p?dryRun=All");
    let patched = patch(&server, JSON_PATCH, &path, replace("/metadata/labels/new")).await.expect(200);
    assert_eq!(patched["metadata"]["labels"]["new"], "b");
    patch(&server, JSON_PATCH, &path, replace("/metadata/finalizers/0")).await.expect(422);
    patch(&server, JSON_PATCH, &path, replace("/metadata/absent/member")).await.expect(422);
}

#[tokio::test]
async fn patches_that_do_not_fit_are_refused_in_upstreams_way() {
    let server = server_with_pod().await;
    for (content_type, body, code, message) in [
        (
            JSON_PATCH,
            json!([{"op": "remove", "path": "/nope"}]),
            422,
            "the server rejected our request due to an error",
        ),
        (
            JSON_PATCH,
            json!([{"op": "frob", "path": "/x"}]),
            422,
            "the server rejected our request due to an error",
        ),
        (
            JSON_PATCH,
            json!([{"op": "test", "path": "/metadata/labels/x", "value": "9"}]),
            422,
            "the server rejected",
        ),
        (MERGE_PATCH, json!([]), 400, "error decoding patch"),
        (
            MERGE_PATCH,
            json!({"metadata": {"name": "q"}}),
            400,
            "the name of the object (q) does not match the name on",
        ),
        (MERGE_PATCH, json!({"metadata": {"resourceVersion": "1"}}), 409, "the object has been modified"),
        (MERGE_PATCH, json!({"spec": {"containers": 7}}), 422, "is invalid: patch: Invalid value"),
        (STRATEGIC_PATCH, json!({"metadata": {"$patch": "frob"}}), 500, "unknown patch type: frob"),
        (STRATEGIC_PATCH, json!({"metadata": {"$retainKeys": 5}}), 400, "invalid patch format of retainKeys"),
        (JSON, json!({}), 415, "415: Unsupported Media Type"),
    ] {
        let (found, _, text) =
            patch(&server, content_type, &format!("{PODS}/p"), body.clone()).await.refusal();
        assert_eq!(found, code, "{content_type} {body}: {text}");
        assert!(text.contains(message), "{content_type} {body}: {text}");
    }
    patch(&server, MERGE_PATCH, &format!("{PODS}/nope"), json!({})).await.expect(404);
}

#[tokio::test]
async fn patches_at_the_same_time_are_all_applied() {
    let server = server_with_pod().await;
    let patches = (0..50).map(|n| {
        let server = &server;
        async move {
            let body = json!({"metadata": {"labels": {format!("n{n}"): "v"}}});
            patch(server, MERGE_PATCH, &format!("{PODS}/p"), body).await.expect(200)
        }
    });
    futures::future::join_all(patches).await;
    let pod = common::get(&server, &format!("{PODS}/p")).await.expect(200);
    assert_eq!(pod["metadata"]["labels"].as_object().unwrap().len(), 52);
}

#[tokio::test]
async fn an_older_form_can_be_patched_without_losing_what_it_has_no_fields_for() {
    let server = TestServer::start().await;
    let path =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let autoscaler = json!({
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 5,
            "metrics": [{"type": "Resource", "resource": {
                "name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}],
        },
    });
    post(&server, &path("v2"), autoscaler).await.expect(201);
    let [older, newer] = ["v1", "v2"].map(|version| format!("{}/web", path(version)));
    let status = json!({"status": {
        "currentReplicas": 1,
        "desiredReplicas": 1,
        "conditions": [{"type": "AbleToScale", "status": "True"}],
    }});
    let before = patch(&server, MERGE_PATCH, &format!("{newer}/status"), status).await.expect(200);
    let change = json!({"spec": {"maxReplicas": 7}});
    patch(&server, MERGE_PATCH, &older, change).await.expect(200);
    let after = get(&server, &newer).await.expect(200);
    assert_eq!(after["spec"]["maxReplicas"], 7);
    assert_eq!(
        (&after["spec"]["metrics"], &after["status"]),
        (&before["spec"]["metrics"], &before["status"])
    );
    // Whoever drops the annotations in which the older form keeps them means the metrics, but can't mean the status.
    let change = json!({"metadata": {"annotations": null}, "spec": {"targetCPUUtilizationPercentage": 33}});
    patch(&server, MERGE_PATCH, &older, change).await.expect(200);
    let after = get(&server, &newer).await.expect(200);
    assert_eq!(after["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 33);
    assert_eq!(after["status"], before["status"]);
}
