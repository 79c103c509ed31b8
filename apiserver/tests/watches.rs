//! Watches: what is told, when, and how they end.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::time::Duration;

use common::{Events, MERGE_PATCH, begin, delete, get, patch, post, request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use steersman_apiserver::TestServer;
use tokio::time::Instant;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create(server: &TestServer, name: &str, label: &str) -> Value {
    post(server, MAPS, json!({"metadata": {"name": name, "labels": {"l": label}}})).await.expect(201)
}

async fn relabel(server: &TestServer, name: &str, label: &str) {
    let body = json!({"metadata": {"labels": {"l": label}}});
    patch(server, MERGE_PATCH, &format!("{MAPS}/{name}"), body).await.expect(200);
}

#[tokio::test]
async fn a_watch_tells_every_change_after_its_version_in_order() {
    let server = TestServer::start().await;
    create(&server, "a", "1").await;
    let version = server.resource_version();
    create(&server, "b", "1").await;
    let mut events = Events::of(&server, &format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    relabel(&server, "a", "2").await;
    delete(&server, &format!("{MAPS}/a"), Value::Null).await.expect(200);
    assert_eq!([events.brief().await, events.brief().await], ["ADDED b", "MODIFIED a"]);
    let deleted = events.next().await.unwrap();
    assert_eq!(common::brief(&deleted), "DELETED a");
    let told: u64 = deleted["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert_eq!(told, server.resource_version(), "a deletion has a version of its own");
}

#[tokio::test]
async fn what_enters_a_selection_is_added_and_what_leaves_it_is_deleted_in_its_last_selected_state() {
    let server = TestServer::start().await;
    let version = server.resource_version();
    let mut events =
        Events::of(&server, &format!("{MAPS}?watch=1&labelSelector=l=1&resourceVersion={version}")).await;
    create(&server, "a", "2").await;
    relabel(&server, "a", "1").await;
    relabel(&server, "a", "3").await;
    delete(&server, &format!("{MAPS}/a"), Value::Null).await.expect(200);
    create(&server, "b", "1").await;
    assert_eq!(events.brief().await, "ADDED a");
    let left = events.next().await.unwrap();
    assert_eq!(
        (common::brief(&left).as_str(), &left["object"]["metadata"]["labels"]["l"]),
        ("DELETED a", &json!("1"))
    );
    let present = get(&server, &format!("{MAPS}/b")).await.expect(200);
    let before: u64 = present["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert_eq!(
        left["object"]["metadata"]["resourceVersion"],
        (before - 2).to_string(),
        "the version of the change"
    );
    assert_eq!(events.brief().await, "ADDED b");
}

#[tokio::test]
async fn a_watch_without_a_version_begins_with_what_is_there() {
    let server = TestServer::start().await;
    create(&server, "a", "1").await;
    for query in ["watch=1", "watch=true&resourceVersion=0"] {
        let mut events = Events::of(&server, &format!("{MAPS}?{query}&fieldSelector=metadata.name=a")).await;
        assert_eq!(events.brief().await, "ADDED a");
    }
    let mut events = Events::of(&server, "/api/v1/watch/namespaces/default/configmaps/a").await;
    assert_eq!(events.brief().await, "ADDED a");
}

#[tokio::test]
async fn streamed_lists_end_with_an_annotated_bookmark() {
    let server = TestServer::start().await;
    create(&server, "a", "1").await;
    create(&server, "b", "2").await;
    let streamed = format!("{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let mut events =
        Events::of(&server, &format!("{streamed}&allowWatchBookmarks=true&labelSelector=l=1")).await;
    assert_eq!(events.brief().await, "ADDED a");
    let bookmark = events.next().await.unwrap();
    assert_eq!((&bookmark["type"], &bookmark["object"]["kind"]), (&json!("BOOKMARK"), &json!("ConfigMap")));
    let metadata = &bookmark["object"]["metadata"];
    assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(metadata["resourceVersion"], server.resource_version().to_string());
    create(&server, "c", "1").await;
    assert_eq!(events.brief().await, "ADDED c");
    let quiet =
        format!("{MAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0");
    let mut events = Events::of(&server, &quiet).await;
    create(&server, "d", "1").await;
    assert_eq!(events.brief().await, "ADDED d");
    for wrong in
        ["watch=1&sendInitialEvents=true", "watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=1"]
    {
        assert_eq!(get(&server, &format!("{MAPS}?{wrong}")).await.code, 422, "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_at_their_interval_with_the_newest_version_of_all() {
    let server = TestServer::start().await;
    let version = server.resource_version();
    let path = format!("{MAPS}?watch=1&resourceVersion={version}&allowWatchBookmarks=true");
    let mut events = Events::of(&server, &path).await;
    post(&server, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await.expect(201);
    let began = Instant::now();
    let bookmark = events.next().await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 60);
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], server.resource_version().to_string());
    assert_eq!(events.brief().await, "BOOKMARK");
    assert_eq!(began.elapsed().as_secs(), 120);
    create(&server, "a", "1").await;
    assert_eq!(events.brief().await, "ADDED a");
    assert_eq!(began.elapsed().as_secs(), 120, "a bookmark delays nothing");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_time_is_over() {
    let server = TestServer::start().await;
    let began = Instant::now();
    let mut events = Events::of(&server, &format!("{MAPS}?watch=1&timeoutSeconds=7")).await;
    assert_eq!(events.next().await, None);
    assert_eq!(began.elapsed().as_secs(), 7);
    let mut events = Events::of(&server, &format!("{MAPS}?watch=1")).await;
    assert_eq!(events.next().await, None);
    let lasted = began.elapsed().as_secs() - 7;
    assert!((1800..=3600).contains(&lasted), "{lasted}");
    let version = server.resource_version();
    let path = format!("{MAPS}?watch=1&timeoutSeconds=7&allowWatchBookmarks=true&resourceVersion={version}");
    let mut events = Events::of(&server, &path).await;
    post(&server, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await.expect(201);
    assert_eq!(events.brief().await, "BOOKMARK", "the last word of a watch is its version");
    assert_eq!(events.brief().await, "end");
}

#[tokio::test]
async fn a_version_that_is_forgotten_ends_the_watch_with_an_error() {
    let server = TestServer::builder().history(3).start().await;
    let version = server.resource_version();
    for n in 0..5 {
        create(&server, &format!("m{n}"), "1").await;
    }
    let mut events = Events::of(&server, &format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    let error = events.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!((&error["object"]["kind"], &error["object"]["reason"]), (&json!("Status"), &json!("Expired")));
    assert_eq!(events.next().await, None);
    let recent = server.resource_version() - 3;
    let mut events = Events::of(&server, &format!("{MAPS}?watch=1&resourceVersion={recent}")).await;
    assert_eq!(events.brief().await, "ADDED m2");
}

#[tokio::test]
async fn a_watch_under_way_survives_compaction_unless_it_was_behind() {
    let server = TestServer::start().await;
    let path = format!("{MAPS}?watch=1&resourceVersion={}", server.resource_version());
    let mut ahead = Events::of(&server, &path).await;
    let mut behind = Events::of(&server, &path).await;
    create(&server, "a", "1").await;
    assert_eq!(ahead.brief().await, "ADDED a");
    server.compact();
    create(&server, "b", "1").await;
    assert_eq!(ahead.brief().await, "ADDED b");
    assert_eq!(behind.next().await.unwrap()["object"]["code"], 410);
}

#[tokio::test]
async fn a_thousand_watchers_share_one_copy_of_an_object() {
    let server = TestServer::start().await;
    let path = format!("{MAPS}?watch=1&resourceVersion={}", server.resource_version());
    let mut bodies = Vec::new();
    for _ in 0..1000 {
        let request = request("GET", &path, common::JSON, &Value::Null);
        bodies.push(begin(&server, request).await.unwrap().into_body());
    }
    let big = json!({"metadata": {"name": "big"}, "data": {"k": "x".repeat(100_000)}});
    post(&server, MAPS, big).await.expect(201);
    let mut places = std::collections::HashSet::new();
    for body in &mut bodies {
        loop {
            let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
            if frame.len() > 50_000 {
                places.insert(frame.as_ptr());
                break;
            }
        }
    }
    assert_eq!(places.len(), 1);
}

#[tokio::test]
async fn metadata_alone_can_be_watched() {
    let server = TestServer::start().await;
    create(&server, "a", "1").await;
    let mut request = request("GET", &format!("{MAPS}?watch=1"), common::JSON, &Value::Null);
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    request.headers_mut().insert("accept", accept.parse().unwrap());
    let mut body = begin(&server, request).await.unwrap().into_body();
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\n") {
        bytes.extend_from_slice(&body.frame().await.unwrap().unwrap().into_data().unwrap());
    }
    let event: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(event["object"]["metadata"]["name"], "a");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_costs_the_writer_nothing() {
    let server = TestServer::builder().history(10).start().await;
    let path = format!("{MAPS}?watch=1&resourceVersion={}", server.resource_version());
    let mut events = Events::of(&server, &path).await;
    for n in 0..100 {
        create(&server, &format!("m{n}"), "1").await;
    }
    let first = tokio::time::timeout(Duration::from_secs(1), events.next()).await.unwrap().unwrap();
    assert_eq!(first["object"]["code"], 410, "it is told that it lost track");
}

/// The bytes of the next event.
async fn frame(body: &mut steersman_apiserver::ResponseBody) -> bytes::Bytes {
    body.frame().await.unwrap().unwrap().into_data().unwrap()
}

#[tokio::test]
async fn all_who_watch_a_change_in_one_form_are_sent_the_same_bytes() {
    let server = TestServer::start().await;
    let mut bodies = Vec::new();
    let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    for accept in [common::JSON, common::JSON, common::PROTOBUF, common::PROTOBUF, partial, partial] {
        let path = format!("{MAPS}?watch=1&resourceVersion={}", server.resource_version());
        let mut request = request("GET", &path, common::JSON, &Value::Null);
        request.headers_mut().insert("accept", accept.parse().unwrap());
        bodies.push(begin(&server, request).await.unwrap().into_body());
    }
    for name in ["a", "b"] {
        post(&server, MAPS, json!({"metadata": {"name": name}})).await.expect(201);
        let mut sent = Vec::new();
        for body in &mut bodies {
            sent.push(frame(body).await);
        }
        assert!(sent.chunks(2).all(|same| same[0].as_ptr() == same[1].as_ptr()), "{sent:?}");
        assert!(sent[0] != sent[2] && sent[2] != sent[4] && sent[0] != sent[4], "{sent:?}");
    }
}
