//! Lists: selectors, pages, versions.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use common::{MERGE_PATCH, begin, delete, get, names, patch, post, request, send};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use steersman_apiserver::TestServer;
use steersman_testing::pod;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn with_maps(names: &[&str]) -> TestServer {
    let server = TestServer::start().await;
    for name in names {
        post(&server, MAPS, json!({"metadata": {"name": name, "labels": {"name": name}}})).await.expect(201);
    }
    server
}

async fn listed(server: &TestServer, path: &str) -> Vec<String> {
    names(&get(server, path).await.expect(200)).into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn selectors_take_what_they_name() {
    let server = with_maps(&["a", "b", "c"]).await;
    for (query, expected) in [
        ("labelSelector=name%20in%20(a,c)", &["a", "c"][..]),
        ("labelSelector=name!=a", &["b", "c"]),
        ("labelSelector=!name", &[]),
        ("fieldSelector=metadata.name=b", &["b"]),
        ("fieldSelector=metadata.name!=b,metadata.namespace=default", &["a", "c"]),
        ("labelSelector=name=a&fieldSelector=metadata.name=b", &[]),
    ] {
        assert_eq!(listed(&server, &format!("{MAPS}?{query}")).await, expected, "{query}");
        assert_eq!(listed(&server, &format!("/api/v1/configmaps?{query}")).await, expected, "{query}");
    }
}

#[tokio::test]
async fn pods_nodes_and_events_are_selected_by_their_own_fields() {
    let server = TestServer::start().await;
    for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "")] {
        post(&server, PODS, pod(name).on(node).build()).await.expect(201);
    }
    let running = json!({"status": {"phase": "Running", "podIPs": [{"ip": "1.2.3.4"}]}});
    patch(&server, MERGE_PATCH, &format!("{PODS}/b/status"), running).await.expect(200);
    for (selector, expected) in [
        ("spec.nodeName=n1", &["a"][..]),
        ("spec.nodeName!=", &["a", "b"]),
        ("spec.nodeName=", &["c"]),
        ("status.phase=Running", &["b"]),
        ("status.phase!=Running,spec.restartPolicy=Always", &["a", "c"]),
        ("status.podIP=1.2.3.4", &["b"]),
        ("spec.hostNetwork=false,spec.schedulerName=default-scheduler,spec.nodeName=n1", &["a"]),
    ] {
        assert_eq!(
            listed(&server, &format!("/api/v1/pods?fieldSelector={selector}")).await,
            expected,
            "{selector}"
        );
    }
    for (name, cordoned) in [("n1", true), ("n2", false)] {
        let node = json!({"metadata": {"name": name}, "spec": {"unschedulable": cordoned}});
        post(&server, "/api/v1/nodes", node).await.expect(201);
    }
    assert_eq!(listed(&server, "/api/v1/nodes?fieldSelector=spec.unschedulable=false").await, ["n2"]);
    for name in ["x", "y"] {
        let about = json!({"kind": "Pod", "name": name, "namespace": "default"});
        let event =
            json!({"metadata": {"name": name}, "involvedObject": about, "source": {"component": "c"}});
        post(&server, "/api/v1/namespaces/default/events", event).await.expect(201);
    }
    let selector = "involvedObject.name=x,involvedObject.kind=Pod,source=c";
    assert_eq!(listed(&server, &format!("/api/v1/events?fieldSelector={selector}")).await, ["x"]);
}

#[tokio::test]
async fn selectors_that_make_no_sense_are_refused() {
    let server = TestServer::start().await;
    for (path, message) in [
        ("/api/v1/pods?fieldSelector=spec.nope=1", "field label not supported: spec.nope"),
        (
            "/api/v1/configmaps?fieldSelector=data=1",
            "\"data\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        ("/api/v1/pods?fieldSelector=abc", "invalid selector: 'abc'; can't understand 'abc'"),
        ("/api/v1/pods?labelSelector=a%20b", "unable to parse requirement"),
        ("/api/v1/pods?limit=x", "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ("/api/v1/pods?resourceVersion=x", "invalid resource version: resourceVersion: Invalid value: \"x\""),
        ("/api/v1/pods?continue=x", "invalid continue token: continue key is not valid"),
    ] {
        let (code, reason, text) = get(&server, path).await.refusal();
        assert_eq!((code, reason.as_str()), (400, "BadRequest"), "{path}");
        assert!(text.contains(message), "{path}: {text}");
    }
}

#[tokio::test]
async fn pages_are_parts_of_one_snapshot() {
    let server = with_maps(&["a", "b", "c", "d", "e"]).await;
    let first = get(&server, &format!("{MAPS}?limit=2")).await.expect(200);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    // What happens now is not seen by the later pages.
    delete(&server, &format!("{MAPS}/d"), Value::Null).await.expect(200);
    post(&server, MAPS, json!({"metadata": {"name": "bb"}})).await.expect(201);
    patch(&server, MERGE_PATCH, &format!("{MAPS}/c"), json!({"data": {"new": "yes"}})).await.expect(200);
    let token = |page: &Value| page["metadata"]["continue"].as_str().unwrap().to_owned();
    let second = get(&server, &format!("{MAPS}?limit=2&continue={}", token(&first))).await.expect(200);
    assert_eq!(names(&second), ["c", "d"]);
    assert!(second["items"][0].get("data").is_none());
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let third = get(&server, &format!("{MAPS}?limit=2&continue={}", token(&second))).await.expect(200);
    assert_eq!(names(&third), ["e"]);
    assert!(
        third["metadata"].get("continue").is_none() && third["metadata"].get("remainingItemCount").is_none()
    );
    let selected = get(&server, &format!("{MAPS}?limit=1&labelSelector=name")).await.expect(200);
    assert!(
        selected["metadata"].get("continue").is_some()
            && selected["metadata"].get("remainingItemCount").is_none()
    );
    assert_eq!(
        listed(&server, &format!("{MAPS}?limit=1&resourceVersion=0")).await.len(),
        5,
        "the limit is ignored"
    );
}

#[tokio::test]
async fn a_page_of_a_forgotten_snapshot_is_expired_and_may_go_on_inconsistently() {
    let server = with_maps(&["a", "b", "c"]).await;
    let first = get(&server, &format!("{MAPS}?limit=1")).await.expect(200);
    post(&server, MAPS, json!({"metadata": {"name": "bb"}})).await.expect(201);
    server.compact();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let expired = get(&server, &format!("{MAPS}?continue={token}")).await;
    assert_eq!((expired.refusal().0, expired.refusal().1.as_str()), (410, "Expired"));
    let token = expired.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(listed(&server, &format!("{MAPS}?continue={token}")).await, ["b", "bb", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_is_exact_or_a_least_one() {
    let server = with_maps(&["a"]).await;
    let version = server.resource_version();
    post(&server, MAPS, json!({"metadata": {"name": "b"}})).await.expect(201);
    for (query, expected) in [
        (format!("resourceVersion={version}&resourceVersionMatch=Exact"), &["a"][..]),
        (format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan"), &["a", "b"]),
        (format!("resourceVersion={version}"), &["a", "b"]),
        (format!("resourceVersion={version}&limit=5"), &["a"]),
        ("resourceVersion=0".to_owned(), &["a", "b"]),
    ] {
        assert_eq!(listed(&server, &format!("{MAPS}?{query}")).await, expected, "{query}");
    }
    let answer = get(&server, &format!("{MAPS}?resourceVersion=999")).await;
    assert_eq!((answer.refusal().0, answer.refusal().1.as_str()), (504, "Timeout"));
    assert_eq!(answer.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(answer.headers["retry-after"], "1");
    server.compact();
    let path = format!("{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(get(&server, &path).await.refusal().1, "Expired");
    for query in [
        "resourceVersionMatch=Exact",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "sendInitialEvents=true",
    ] {
        assert_eq!(get(&server, &format!("{MAPS}?{query}")).await.code, 422, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_of_a_version_to_come_waits_for_it() {
    let server = with_maps(&["a"]).await;
    let next = server.resource_version() + 1;
    let path = format!("{MAPS}?resourceVersion={next}");
    let (list, _) = tokio::join!(get(&server, &path), async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        post(&server, MAPS, json!({"metadata": {"name": "b"}})).await
    });
    assert_eq!(names(&list.expect(200)), ["a", "b"]);
}

#[tokio::test]
async fn metadata_alone_is_listed_where_the_client_asks_for_it() {
    let server = with_maps(&["a"]).await;
    let mut request = common::request("GET", MAPS, common::JSON, &Value::Null);
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    request.headers_mut().insert("accept", accept.parse().unwrap());
    let list = common::send(&server, request).await.expect(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    assert_eq!(list["items"][0]["metadata"]["labels"]["name"], "a");
    let whole = get(&server, MAPS).await.expect(200);
    assert!(whole["items"][0].get("kind").is_none(), "items of built-in lists do not say what they are");
}

/// The items of a list in that encoding.
async fn items(server: &TestServer, path: &str, accept: &str) -> Vec<Value> {
    let mut request = request("GET", path, common::JSON, &Value::Null);
    request.headers_mut().insert("accept", accept.parse().unwrap());
    items_of(&send(server, request).await.bytes, accept)
}

fn items_of(body: &[u8], accept: &str) -> Vec<Value> {
    let list = match accept {
        common::PROTOBUF => steersman_api::schema::decode(body).unwrap(),
        _ => serde_json::from_slice(body).unwrap(),
    };
    let items = if list["kind"] == "Table" { &list["rows"] } else { &list["items"] };
    items.as_array().unwrap().clone()
}

// Tables show how old objects are: time stands still.
#[tokio::test(start_paused = true)]
async fn a_list_of_many_pieces_is_of_the_moment_in_which_it_was_asked_for() {
    let server = TestServer::start().await;
    for n in 0..30 {
        let data = json!({"k": "x".repeat(10_000)});
        post(&server, MAPS, json!({"metadata": {"name": format!("m{n:02}")}, "data": data}))
            .await
            .expect(201);
    }
    for accept in [
        common::JSON,
        common::PROTOBUF,
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
    ] {
        let mut one_by_one = Vec::new();
        for n in 0..30 {
            one_by_one
                .extend(items(&server, &format!("{MAPS}?fieldSelector=metadata.name=m{n:02}"), accept).await);
        }
        let mut request = request("GET", MAPS, common::JSON, &Value::Null);
        request.headers_mut().insert("accept", accept.parse().unwrap());
        let answer = begin(&server, request).await.unwrap();
        for n in 0..30 {
            patch(&server, MERGE_PATCH, &format!("{MAPS}/m{n:02}"), json!({"data": {"other": accept}}))
                .await
                .expect(200);
        }
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(items_of(&body, accept), one_by_one, "{accept}");
    }
}
