//! Protobuf: objects, lists, watches, metadata, refusals, bodies of requests.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use bytes::Bytes;
use common::{PROTOBUF, begin, get, post, request, send};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use steersman_api::Status;
use steersman_api::{schema, wire};
use steersman_apiserver::TestServer;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn accepting(path: &str, accept: &str) -> http::Request<Vec<u8>> {
    let mut request = request("GET", path, common::JSON, &Value::Null);
    request.headers_mut().insert("accept", accept.parse().unwrap());
    request
}

/// An answer's object, back in JSON.
async fn fetched(server: &TestServer, path: &str, accept: &str) -> Value {
    let answer = send(server, accepting(path, accept)).await;
    assert_eq!(answer.code, 200, "{}", answer.text());
    assert_eq!(answer.headers["content-type"], PROTOBUF);
    schema::decode(&answer.bytes).unwrap()
}

async fn server_with_pods() -> TestServer {
    let server = TestServer::start().await;
    for name in ["a", "b"] {
        let spec =
            json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "0.5"}}}]});
        post(&server, PODS, json!({"metadata": {"name": name, "labels": {"l": name}}, "spec": spec}))
            .await
            .expect(201);
    }
    server
}

#[tokio::test]
async fn objects_and_lists_say_the_same_in_both_encodings() {
    let server = server_with_pods().await;
    let one = fetched(&server, &format!("{PODS}/a"), PROTOBUF).await;
    assert_eq!(one, get(&server, &format!("{PODS}/a")).await.expect(200));
    for query in ["", "?limit=1", "?labelSelector=l=b", "?labelSelector=none"] {
        let path = format!("{PODS}{query}");
        let list = fetched(&server, &path, PROTOBUF).await;
        assert_eq!(list, get(&server, &path).await.expect(200), "{query}");
    }
}

#[tokio::test]
async fn every_listable_kind_lists_in_protobuf() {
    let server = TestServer::start().await;
    let served = schema::table().group_versions().iter();
    for version in served {
        let listable = version.resources.iter().filter(|resource| resource.allows("list"));
        for resource in listable.filter(|resource| resource.plural != "componentstatuses") {
            let path =
                steersman_api::GroupVersionResource::new(resource.group, resource.version, resource.plural)
                    .path("");
            let list = fetched(&server, &path, PROTOBUF).await;
            assert_eq!(list["kind"], format!("{}List", resource.kind), "{path}");
        }
    }
}

#[tokio::test]
async fn metadata_alone_comes_in_protobuf_too() {
    let server = server_with_pods().await;
    let accept = format!("{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    let list = fetched(&server, PODS, &accept).await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][1]["metadata"]["labels"]["l"], "b");
    let accept = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let one = fetched(&server, &format!("{PODS}/a"), &accept).await;
    assert_eq!((&one["kind"], one.get("spec")), (&json!("PartialObjectMetadata"), None));
}

/// The type and the object of each frame until the bookmark.
async fn frames(server: &TestServer, path: &str, accept: &str) -> Vec<(String, Value)> {
    let answer = begin(server, accepting(path, accept)).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    let mut body = answer.into_body();
    let mut buffer = Vec::new();
    let mut seen = Vec::new();
    loop {
        let frame: Bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
        buffer.extend_from_slice(&frame);
        while let Some(length) = buffer.first_chunk::<4>() {
            let end = 4 + u32::from_be_bytes(*length) as usize;
            if buffer.len() < end {
                break;
            }
            let event: Vec<u8> = buffer.drain(..end).skip(4).collect();
            let mut reader = wire::Reader::new(&event);
            let kind = reader.field().unwrap().unwrap().text().unwrap().to_owned();
            let mut extension = reader.field().unwrap().unwrap().message().unwrap();
            let raw = extension.field().unwrap().unwrap().bytes().unwrap();
            seen.push((kind.clone(), schema::decode(raw).unwrap()));
            if kind == "BOOKMARK" || kind == "ERROR" {
                return seen;
            }
        }
    }
}

#[tokio::test]
async fn watches_are_frames_of_watch_events() {
    let server = server_with_pods().await;
    let streamed = format!(
        "{PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let seen = frames(&server, &streamed, &format!("{PROTOBUF};stream=watch")).await;
    let kinds: Vec<&str> = seen.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["ADDED", "ADDED", "BOOKMARK"]);
    assert_eq!(seen[0].1, get(&server, &format!("{PODS}/a")).await.expect(200));
    assert_eq!(seen[2].1["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let partial = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let seen = frames(&server, &streamed, &partial).await;
    assert_eq!(seen[1].1["kind"], "PartialObjectMetadata");
    assert_eq!(seen[1].1["metadata"]["name"], "b");
    server.compact();
    let old = format!("{PODS}?watch=1&resourceVersion=1");
    let seen = frames(&server, &old, PROTOBUF).await;
    assert_eq!((seen[0].0.as_str(), &seen[0].1["reason"]), ("ERROR", &json!("Expired")));
}

#[tokio::test]
async fn bodies_of_requests_may_be_protobuf() {
    let server = TestServer::start().await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let mut create = request("POST", "/api/v1/namespaces/default/configmaps", PROTOBUF, &Value::Null);
    *create.body_mut() = schema::encode(&map).unwrap();
    assert_eq!(send(&server, create).await.expect(201)["data"]["k"], "v");
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "other"}});
    let mut delete = request("DELETE", "/api/v1/namespaces/default/configmaps/a", PROTOBUF, &Value::Null);
    *delete.body_mut() = schema::encode(&options).unwrap();
    assert_eq!(send(&server, delete).await.refusal().0, 409);
    let mut broken = request("POST", "/api/v1/namespaces/default/configmaps", PROTOBUF, &Value::Null);
    *broken.body_mut() = b"k8s\0\xff".to_vec();
    assert_eq!(send(&server, broken).await.refusal().0, 400);
}

#[tokio::test]
async fn refusals_are_protobuf_where_it_was_asked_for() {
    let server = TestServer::start().await;
    let answer = send(&server, accepting(&format!("{PODS}/nope"), PROTOBUF)).await;
    let status = Status::from_body(&answer.bytes).unwrap();
    assert_eq!((answer.code, status.reason.as_str()), (404, "NotFound"));
    assert_eq!(status.details.unwrap().kind, "pods");
    let answer = send(&server, accepting(PODS, "text/html")).await;
    assert_eq!(answer.refusal().0, 406);
    let fallback = send(
        &server,
        accepting(PODS, "text/html,application/json;as=Chart;v=v1;g=meta.k8s.io,application/json"),
    )
    .await;
    assert_eq!(fallback.expect(200)["kind"], "PodList");
}
