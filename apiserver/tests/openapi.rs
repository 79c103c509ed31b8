//! What is told of the API in OpenAPI v3.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::collections::BTreeSet;

use common::{Answer, JSON, MERGE_PATCH, get, patch, post, request, send};
use http::HeaderValue;
use serde_json::{Value, json};
use steersman_apiserver::TestServer;

async fn with_header(server: &TestServer, path: &str, name: &'static str, value: &str) -> Answer {
    let mut request = request("GET", path, JSON, &Value::Null);
    request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
    send(server, request).await
}

/// Paths and addresses of all documents.
async fn index(server: &TestServer) -> Vec<(String, String)> {
    let index = get(server, "/openapi/v3").await.expect(200);
    let paths = index["paths"].as_object().unwrap().iter();
    paths.map(|(path, at)| (path.clone(), at["serverRelativeURL"].as_str().unwrap().to_owned())).collect()
}

async fn address(server: &TestServer, path: &str) -> String {
    index(server).await.into_iter().find(|(found, _)| found == path).unwrap().1
}

/// All that `$ref` says anywhere within.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn every_group_version_has_a_document_in_which_all_references_lead_somewhere() {
    let server = TestServer::start().await;
    let groups = get(&server, "/apis").await.expect(200);
    let groups = groups["groups"].as_array().unwrap().iter();
    let versions = groups.flat_map(|group| group["versions"].as_array().unwrap());
    let mut expected: BTreeSet<String> =
        versions.map(|version| format!("apis/{}", version["groupVersion"].as_str().unwrap())).collect();
    expected.insert("api/v1".to_owned());
    let index = index(&server).await;
    assert_eq!(index.iter().map(|(path, _)| path.clone()).collect::<BTreeSet<_>>(), expected);
    for (path, address) in index {
        let document = get(&server, &address).await.expect(200);
        assert_eq!(document["openapi"], "3.0.0");
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(!found.is_empty(), "{path}");
        for reference in found {
            let name = reference.strip_prefix("#/components/schemas/").unwrap();
            assert!(document["components"]["schemas"].get(name).is_some(), "{path}: {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_may_be_kept_under_its_hash() {
    let server = TestServer::start().await;
    let path = "/openapi/v3/apis/batch/v1";
    let kept = address(&server, "apis/batch/v1").await;
    let answer = get(&server, &kept).await;
    assert_eq!((answer.code, &answer.headers["cache-control"]), (200, &"public, immutable".parse().unwrap()));
    assert!(answer.headers["expires"].to_str().unwrap().ends_with(" GMT"));
    let tag = answer.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(kept, format!("{path}?hash={}", tag.trim_matches('"')));
    let plain = get(&server, path).await;
    assert_eq!((plain.code, &plain.headers["cache-control"]), (200, &"no-cache, private".parse().unwrap()));
    assert_eq!(plain.bytes, answer.bytes);
    assert_eq!(with_header(&server, path, "if-none-match", &tag).await.code, 304);
    assert_eq!(with_header(&server, path, "if-none-match", "\"other\"").await.code, 200);
    let stale = get(&server, &format!("{path}?hash=ABC")).await;
    assert_eq!((stale.code, stale.headers["location"].to_str().unwrap()), (301, kept.as_str()));
    let protobuf = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    assert_eq!(with_header(&server, path, "accept", protobuf).await.code, 406);
    for nowhere in ["/openapi/v3/apis/nope/v1", "/openapi/v2", "/openapi"] {
        assert_eq!(get(&server, nowhere).await.code, 404, "{nowhere}");
    }
    assert_eq!(send(&server, request("POST", path, JSON, &json!({}))).await.code, 405);
}

#[tokio::test(start_paused = true)]
async fn schemas_are_as_upstream_publishes_them() {
    let server = TestServer::start().await;
    let document = get(&server, "/openapi/v3/apis/batch/v1").await.expect(200);
    let schema = |name: &str| &document["components"]["schemas"][name];
    let reference = |name: &str| json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]});
    let mut metadata = reference("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    metadata["default"] = json!({});
    let job = schema("io.k8s.api.batch.v1.Job");
    assert_eq!(job["properties"]["metadata"], metadata);
    assert_eq!(
        job["x-kubernetes-group-version-kind"],
        json!([{"group": "batch", "version": "v1", "kind": "Job"}])
    );
    let spec = schema("io.k8s.api.batch.v1.JobSpec");
    assert_eq!(spec["required"], json!(["template"]));
    assert_eq!(
        spec["properties"]["completionMode"],
        json!({"type": "string", "enum": ["Indexed", "NonIndexed"]})
    );
    let mut container = reference("io.k8s.api.core.v1.Container");
    container["default"] = json!({});
    assert_eq!(
        schema("io.k8s.api.core.v1.PodSpec")["properties"]["containers"],
        json!({
            "type": "array",
            "items": container,
            "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-list-type": "map",
            "x-kubernetes-patch-merge-key": "name",
            "x-kubernetes-patch-strategy": "merge",
        })
    );
    let port = &schema("io.k8s.api.core.v1.ContainerPort")["properties"]["protocol"];
    assert_eq!(*port, json!({"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]}));
    let profile = schema("io.k8s.api.core.v1.SeccompProfile");
    assert_eq!(
        profile["x-kubernetes-unions"],
        json!([{"discriminator": "type", "fields-to-discriminateBy": {"localhostProfile": "LocalhostProfile"}}])
    );
    assert_eq!(
        schema("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector")["x-kubernetes-map-type"],
        "atomic"
    );
}

#[tokio::test(start_paused = true)]
async fn operations_say_what_they_are_about_and_what_they_take() {
    let server = TestServer::start().await;
    let document = get(&server, "/openapi/v3/apis/apps/v1").await.expect(200);
    let path = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    let patch = &path["patch"];
    assert_eq!(patch["x-kubernetes-action"], "patch");
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    let parameters = patch["parameters"].as_array().unwrap().iter();
    let parameters: Vec<&str> = parameters.map(|parameter| parameter["name"].as_str().unwrap()).collect();
    assert_eq!(parameters, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some());
    let scale = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale";
    assert_eq!(document["paths"][scale]["get"]["x-kubernetes-group-version-kind"]["group"], "autoscaling");
    let everywhere = &document["paths"]["/apis/apps/v1/deployments"];
    assert_eq!((everywhere.get("get").is_some(), everywhere.get("post")), (true, None));
    let mut ids = BTreeSet::new();
    for item in document["paths"].as_object().unwrap().values() {
        let operations = item.as_object().unwrap().values();
        for id in operations.filter_map(|operation| operation.get("operationId")) {
            assert!(ids.insert(id.to_string()), "{id}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_described_by_their_definition() {
    let server = TestServer::start().await;
    let schema = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "description": "How big"}}}},
    });
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&server, definitions, definition).await.expect(201);
    let before = address(&server, "apis/example.com/v1").await;
    let document = get(&server, &before).await.expect(200);
    let widget = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(widget["properties"]["spec"]["properties"]["size"]["description"], "How big");
    assert_eq!(widget["properties"]["kind"], json!({"type": "string"}));
    assert_eq!(
        widget["x-kubernetes-group-version-kind"],
        json!([{"group": "example.com", "version": "v1", "kind": "Widget"}])
    );
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in found {
        let name = reference.strip_prefix("#/components/schemas/").unwrap();
        assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
    }
    let path = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}";
    let content = document["paths"][path]["patch"]["requestBody"]["content"].as_object().unwrap();
    assert!(content.contains_key("application/merge-patch+json"));
    assert!(!content.contains_key("application/strategic-merge-patch+json"));
    let change = json!({"spec": {"names": {"shortNames": ["wi"]}}});
    patch(&server, MERGE_PATCH, &format!("{definitions}/widgets.example.com"), change).await.expect(200);
    assert_ne!(address(&server, "apis/example.com/v1").await, before);
}
