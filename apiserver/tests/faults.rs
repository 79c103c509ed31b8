//! Faults on demand, and what tests can learn of the requests that were served.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::time::Duration;

use common::{Events, PROTOBUF, begin, get, post, request, send};
use serde_json::{Value, json};
use steersman_api::{GroupVersionResource, ObjectKey, schema};
use steersman_apiserver::{Calls, Failure, TestServer, Verb};
use steersman_testing::pod;
use tokio::time::Instant;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn exists(server: &TestServer, name: &str) -> bool {
    let maps = GroupVersionResource::new("", "v1", "configmaps");
    server.peek(&maps, &ObjectKey::new("default", name)).is_some()
}

#[tokio::test]
async fn the_next_so_many_calls_that_fit_are_refused_and_not_carried_out() {
    let server = TestServer::start().await;
    for (failure, code, reason) in [
        (Failure::Expired, 410, "Expired"),
        (Failure::TooManyRequests { retry_after: None }, 429, "TooManyRequests"),
        (Failure::TooManyRequests { retry_after: Some(Duration::from_secs(3)) }, 429, "TooManyRequests"),
        (Failure::InternalError, 500, "InternalError"),
    ] {
        let has_time = matches!(failure, Failure::TooManyRequests { retry_after: Some(_) });
        server.faults().fail(2, Calls::to("configmaps").verb(Verb::Create), failure);
        for _ in 0..2 {
            get(&server, MAPS).await.expect(200);
            let answer = post(&server, MAPS, map("a")).await;
            assert_eq!((answer.refusal().0, answer.refusal().1.as_str()), (code, reason));
            assert_eq!(answer.headers.contains_key("retry-after"), has_time);
        }
        assert_eq!(server.faults().pending(), 0);
        assert!(!exists(&server, "a"));
    }
    post(&server, MAPS, map("a")).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn a_write_may_land_without_an_answer() {
    let server = TestServer::start().await;
    let create = |name: &str| begin(&server, request("POST", MAPS, common::JSON, &map(name)));
    let creates = || Calls::to("configmaps").verb(Verb::Create);
    server.faults().fail(1, creates(), Failure::ResetAfterwards);
    assert!(create("reset").await.is_err());
    assert!(exists(&server, "reset"));
    server.faults().fail(1, creates(), Failure::TimeoutAfterwards);
    assert_eq!(create("timeout").await.unwrap().status(), 504);
    assert!(exists(&server, "timeout"));
    server.faults().fail(1, creates(), Failure::HangAfterwards);
    assert!(tokio::time::timeout(Duration::from_secs(60), create("hang")).await.is_err());
    assert!(exists(&server, "hang"));
    server.faults().fail(1, creates(), Failure::Reset);
    assert!(create("before").await.is_err());
    server.faults().fail(1, creates(), Failure::Hang);
    assert!(tokio::time::timeout(Duration::from_secs(60), create("before")).await.is_err());
    assert!(!exists(&server, "before"));
}

#[tokio::test]
async fn over_a_socket_a_reset_is_an_error_of_the_connection() {
    let server = TestServer::start().await;
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::default_namespaced(server.client());
    server.faults().fail(1, Calls::all().verb(Verb::Create), Failure::ResetAfterwards);
    let sent = serde_json::from_value(map("a")).unwrap();
    let error = maps.create(&kube::api::PostParams::default(), &sent).await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "{error}");
    assert!(exists(&server, "a"));
    maps.get("a").await.unwrap();
}

#[tokio::test]
async fn watches_are_cut_after_so_many_events_or_at_once() {
    let server = TestServer::start().await;
    for name in ["a", "b", "c"] {
        post(&server, MAPS, map(name)).await.expect(201);
    }
    server.faults().cut_watches_after(1, Calls::to("configmaps"), 2);
    server.faults().cut_watches_after(1, Calls::to("configmaps"), 0);
    let mut events = Events::of(&server, &format!("{MAPS}?watch=1")).await;
    assert_eq!(
        [events.brief().await, events.brief().await, events.brief().await],
        ["ADDED a", "ADDED b", "end"]
    );
    let mut events = Events::of(&server, &format!("{MAPS}?watch=1")).await;
    assert_eq!(events.brief().await, "end");
    let mut events = Events::of(&server, &format!("{MAPS}?watch=1&resourceVersion=0")).await;
    for name in ["a", "b", "c"] {
        assert_eq!(events.brief().await, format!("ADDED {name}"));
    }
    server.faults().cut_watches(Calls::to("pods"));
    post(&server, MAPS, map("d")).await.expect(201);
    assert_eq!(events.brief().await, "ADDED d");
    server.faults().cut_watches(Calls::all());
    assert_eq!(events.brief().await, "end");
}

#[tokio::test(start_paused = true)]
async fn watches_can_lag_behind_writes() {
    let server = TestServer::start().await;
    server.faults().delay_watches(Calls::to("configmaps"), Duration::from_secs(5));
    let path = format!("{MAPS}?watch=1&resourceVersion={}", server.resource_version());
    let mut events = Events::of(&server, &path).await;
    post(&server, MAPS, map("a")).await.expect(201);
    let written = Instant::now();
    assert_eq!(events.brief().await, "ADDED a");
    assert_eq!(written.elapsed().as_secs(), 5);
    server.faults().delay_watches(Calls::to("configmaps"), Duration::ZERO);
    post(&server, MAPS, map("b")).await.expect(201);
    assert_eq!(events.brief().await, "ADDED b");
    assert_eq!(written.elapsed().as_secs(), 5);
}

#[tokio::test]
async fn a_spoiled_object_keeps_its_metadata_and_nothing_else_can_be_read() {
    let server = TestServer::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    for name in ["a", "b"] {
        post(&server, pods, pod(name).build()).await.expect(201);
    }
    server.faults().spoil(Calls::to("pods"), "a");
    let list = get(&server, pods).await.expect(200);
    assert_eq!(
        (&list["items"][0]["metadata"]["name"], &list["items"][0]["spec"]),
        (&json!("a"), &json!("spoiled"))
    );
    assert!(list["items"][1]["spec"].is_object());
    let event = Events::of(&server, &format!("{pods}?watch=1")).await.next().await.unwrap();
    assert_eq!(event["object"]["spec"], "spoiled");
    let mut request = request("GET", pods, common::JSON, &Value::Null);
    request.headers_mut().insert("accept", PROTOBUF.parse().unwrap());
    let bytes = send(&server, request).await.bytes;
    assert!(schema::decode(&bytes).is_err());
    server.faults().clear();
    assert!(get(&server, pods).await.expect(200)["items"][0]["spec"].is_object());
}

#[tokio::test]
async fn a_recording_tells_who_asked_for_what() {
    let server = TestServer::start().await;
    let recording = server.record();
    post(&server, MAPS, map("a")).await.expect(201);
    post(&server, MAPS, map("a")).await.expect(409);
    let mut read = request("GET", &format!("{MAPS}/a"), common::JSON, &Value::Null);
    read.headers_mut().insert("user-agent", "steersman/job-controller".parse().unwrap());
    send(&server, read).await.expect(200);
    let creates = recording.matching(&Calls::to("configmaps").verb(Verb::Create).name("a"));
    assert_eq!(creates.iter().map(|create| create.code).collect::<Vec<_>>(), [201, 409]);
    assert_eq!(serde_json::from_slice::<Value>(&creates[0].body).unwrap(), map("a"));
    assert_eq!(recording.count(&Calls::all().user_agent("job-controller")), 1);
    assert_eq!(recording.writes().len(), 2);
    assert_eq!(format!("{:?}", recording.requests()[2]), "get configmaps/default/a -> 200");
    recording.clear();
    assert!(recording.requests().is_empty());
}
