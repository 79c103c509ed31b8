//! What clients get that ask for tables.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use common::{Answer, Events, JSON, delete, post, request, send};
use http::HeaderValue;
use serde_json::{Value, json};
use steersman_apiserver::TestServer;

/// As `kubectl get` asks.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

fn asking(method: &str, path: &str, accept: &'static str, body: &Value) -> http::Request<Vec<u8>> {
    let mut request = request(method, path, JSON, body);
    request.headers_mut().insert("accept", HeaderValue::from_static(accept));
    request
}

async fn table(server: &TestServer, path: &str) -> Answer {
    send(server, asking("GET", path, TABLE, &Value::Null)).await
}

fn heads(table: &Value) -> Vec<&str> {
    let columns = table["columnDefinitions"].as_array().unwrap();
    columns.iter().map(|column| column["name"].as_str().unwrap()).collect()
}

async fn config_map(server: &TestServer, name: &str) {
    let map = json!({"metadata": {"name": name}, "data": {"a": "b"}});
    post(server, "/api/v1/namespaces/default/configmaps", map).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_a_table_of_rows_with_the_metadata_of_their_objects() {
    let server = TestServer::start().await;
    for name in ["one", "two"] {
        config_map(&server, name).await;
    }
    let answer = table(&server, "/api/v1/namespaces/default/configmaps?limit=1").await;
    assert_eq!(answer.headers["content-type"], "application/json");
    let list = answer.expect(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(heads(&list), ["Name", "Data", "Age"]);
    assert_eq!(list["rows"].as_array().unwrap().len(), 1);
    let row = &list["rows"][0];
    assert_eq!(row["cells"], json!(["one", 1, "0s"]));
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row["object"]["metadata"]["name"], "one");
    assert_eq!(row["object"].get("data"), None);
    assert_eq!(list["metadata"]["remainingItemCount"], 1);
    let token = list["metadata"]["continue"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/default/configmaps?limit=1&continue={token}");
    assert_eq!(table(&server, &path).await.expect(200)["rows"][0]["cells"][0], "two");
    let none = table(&server, "/api/v1/namespaces/kube-system/configmaps").await.expect(200);
    assert_eq!((heads(&none).len(), &none["rows"]), (3, &json!([])));
}

#[tokio::test(start_paused = true)]
async fn an_object_is_a_table_of_one_row_with_what_the_client_wants_of_it() {
    let server = TestServer::start().await;
    config_map(&server, "one").await;
    let path = "/api/v1/namespaces/default/configmaps/one";
    let whole = common::get(&server, path).await.expect(200);
    for (include, expected) in [
        ("?includeObject=None", Value::Null),
        ("?includeObject=Object", whole.clone()),
        (
            "?includeObject=Metadata",
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": whole["metadata"]}),
        ),
    ] {
        let one = table(&server, &format!("{path}{include}")).await.expect(200);
        assert_eq!(one["rows"][0]["object"], expected, "{include}");
        assert_eq!(one["metadata"], json!({"resourceVersion": whole["metadata"]["resourceVersion"]}));
    }
    let refused = table(&server, &format!("{path}?includeObject=Some")).await.refusal();
    let why = "Unable to convert to Table as requested: includeObject: Invalid value: \"Some\": must be 'Metadata', \
               'Object', 'None', or empty";
    assert_eq!(refused, (400, "BadRequest".to_owned(), why.to_owned()));
    let missing = table(&server, "/api/v1/namespaces/default/configmaps/two").await.expect(404);
    assert_eq!(missing["kind"], "Status");
}

#[tokio::test(start_paused = true)]
async fn tables_come_in_the_version_and_encoding_that_exist() {
    let server = TestServer::start().await;
    let path = "/api/v1/namespaces/default";
    let old = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
    let answer = send(&server, asking("GET", path, old, &Value::Null)).await.expect(200);
    assert_eq!(answer["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(answer["rows"][0]["object"]["apiVersion"], "meta.k8s.io/v1beta1");
    for refused in [
        "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v2;g=meta.k8s.io",
        "application/json;as=Chart;v=v1;g=meta.k8s.io",
    ] {
        send(&server, asking("GET", path, refused, &Value::Null)).await.expect(406);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_its_columns_once() {
    let server = TestServer::start().await;
    config_map(&server, "one").await;
    let path = "/api/v1/namespaces/default/configmaps?watch=1&sendInitialEvents=true&allowWatchBookmarks=true\
                &resourceVersionMatch=NotOlderThan";
    let mut events = Events::asking(&server, path, TABLE).await;
    let first = events.next().await.unwrap();
    assert_eq!((&first["type"], &first["object"]["kind"]), (&json!("ADDED"), &json!("Table")));
    assert_eq!(heads(&first["object"]), ["Name", "Data", "Age"]);
    let mark = events.next().await.unwrap();
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(mark["object"]["rows"][0]["cells"], json!(["", 0, "<unknown>"]));
    let marked = &mark["object"]["rows"][0]["object"]["metadata"];
    assert_eq!(marked["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    config_map(&server, "two").await;
    delete(&server, "/api/v1/namespaces/default/configmaps/one", Value::Null).await.expect(200);
    for (kind, name) in [("ADDED", "two"), ("DELETED", "one")] {
        let event = events.next().await.unwrap();
        assert_eq!(event["type"], kind);
        assert_eq!(event["object"]["columnDefinitions"], Value::Null);
        assert_eq!(event["object"]["rows"][0]["cells"][0], name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_too_late_is_told_so_by_a_status() {
    let server = TestServer::start().await;
    config_map(&server, "one").await;
    config_map(&server, "two").await;
    server.compact();
    let path = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=1";
    let event = Events::asking(&server, path, TABLE).await.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("ERROR"), &json!("Status")));
}

#[tokio::test(start_paused = true)]
async fn writes_and_scales_are_shown_as_rows_too() {
    let server = TestServer::start().await;
    let template = json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": template},
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let made = send(&server, asking("POST", path, TABLE, &deployment)).await.expect(201);
    assert_eq!(made["rows"][0]["cells"], json!(["web", "0/3", 0, 0, "0s", "c", "i", "app=a"]));
    let scale = table(&server, &format!("{path}/web/scale")).await.expect(200);
    assert_eq!(heads(&scale), ["Name", "Desired", "Available", "Age"]);
    assert_eq!(scale["rows"][0]["cells"], json!(["web", 3, 0, "0s"]));
    let gone = send(&server, asking("DELETE", &format!("{path}/web"), TABLE, &Value::Null)).await.expect(200);
    assert_eq!(gone["kind"], "Status");
}

#[tokio::test(start_paused = true)]
async fn other_versions_of_a_kind_have_the_rows_of_the_stored_one() {
    let server = TestServer::start().await;
    let event = json!({
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Because",
        "note": "it is so",
        "type": "Normal",
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "action": "Act",
    });
    post(&server, "/apis/events.k8s.io/v1/namespaces/default/events", event).await.expect(201);
    for path in ["/apis/events.k8s.io/v1/events", "/api/v1/events"] {
        let cells = &table(&server, path).await.expect(200)["rows"][0]["cells"];
        assert_eq!(
            cells.as_array().unwrap()[1..7],
            ["Normal", "Because", "pod/p", "", "example.com/c, i", "it is so"].map(Value::from),
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_has_the_columns_of_the_version_that_is_asked() {
    let server = TestServer::start().await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let columns = json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]);
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": schema, "additionalPrinterColumns": columns},
                {"name": "v2", "served": true, "storage": false, "schema": schema},
            ],
        },
    });
    post(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.expect(201);
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 7}});
    post(&server, "/apis/example.com/v1/namespaces/default/widgets", widget).await.expect(201);
    let v1 = table(&server, "/apis/example.com/v1/widgets").await.expect(200);
    assert_eq!((heads(&v1), &v1["rows"][0]["cells"]), (vec!["Name", "Size"], &json!(["w", 7])));
    let v2 = table(&server, "/apis/example.com/v2/widgets").await.expect(200);
    assert_eq!((heads(&v2), &v2["rows"][0]["cells"]), (vec!["Name", "Age"], &json!(["w", "0s"])));
}
