//! Who manages which fields, and server-side apply, held against what kube-apiserver 1.36.3 answered.
//!
//! `testdata/managed_fields.jsonl` has one request a line, in order, and the answer: without dates, uids and versions,
//! entries and causes sorted. `unchanged` says that the object kept its version; without dates, an entry that has none
//! says `timed: false`.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_apiserver::{Clock, TestServer};

mod common;
use common::{Answer, send};

const VECTORS: &str = include_str!("testdata/managed_fields.jsonl");

/// The members of an answer that the vectors have.
fn seen(line: &Value, answer: &Answer, versions: &mut HashMap<String, Value>) -> Value {
    let mut seen = Map::new();
    seen.insert("code".to_owned(), answer.code.into());
    let warnings: Vec<_> =
        answer.headers.get_all("warning").iter().filter_map(|warning| warning.to_str().ok()).collect();
    if !warnings.is_empty() {
        seen.insert("warnings".to_owned(), json!(warnings));
    }
    let object = answer.json();
    let metadata = &object["metadata"];
    let path = line["path"].as_str().unwrap();
    if object["kind"] == "Status" {
        for name in ["reason", "message"] {
            if object[name].as_str().is_some_and(|text| !text.is_empty()) {
                seen.insert(name.to_owned(), object[name].clone());
            }
        }
        if let Some(causes) = object["details"]["causes"].as_array() {
            let key = |cause: &Value| (cause["field"].to_string(), cause["message"].to_string());
            seen.insert("causes".to_owned(), sorted(causes, key));
        }
        return Value::Object(seen);
    }
    if let Some(entries) = metadata["managedFields"].as_array() {
        let entries: Vec<Value> = entries.iter().map(without_time).collect();
        let key = |entry: &Value| {
            ["manager", "operation", "apiVersion", "subresource"]
                .map(|name| entry[name].as_str().unwrap_or("").to_owned())
        };
        seen.insert("managed".to_owned(), sorted(&entries, key));
    }
    // As much of the rest as the vector has.
    let shown = |name: &str| line["answer"].get(name).is_some();
    for name in ["labels", "annotations", "finalizers"].into_iter().filter(|name| shown(name)) {
        seen.insert(name.to_owned(), metadata[name].clone());
    }
    for name in ["data", "spec"].into_iter().filter(|name| shown(name)) {
        let mut value = object[name].clone();
        if object["kind"] == "Service" {
            let spec = value.as_object_mut().unwrap();
            spec.retain(|name, _| name != "clusterIP" && name != "clusterIPs");
            for port in spec["ports"].as_array_mut().unwrap() {
                port.as_object_mut().unwrap().remove("nodePort");
            }
        }
        seen.insert(name.to_owned(), value);
    }
    if line["method"] != "POST" && object["kind"] != "Scale" && !path.contains("dryRun") {
        let name = format!("{} {} {}", object["kind"], metadata["namespace"], metadata["name"]);
        let before = versions.insert(name, metadata["resourceVersion"].clone());
        if before.as_ref() == Some(&metadata["resourceVersion"]) && line["method"] != "GET" {
            seen.insert("unchanged".to_owned(), true.into());
        }
    }
    Value::Object(seen)
}

fn without_time(entry: &Value) -> Value {
    let mut entry = entry.clone();
    let members = entry.as_object_mut().unwrap();
    assert_eq!(members.remove("fieldsType"), Some("FieldsV1".into()));
    if members.remove("time").is_none() {
        members.insert("timed".to_owned(), false.into());
    }
    entry
}

fn sorted<K: Ord>(items: &[Value], key: impl Fn(&Value) -> K) -> Value {
    let mut items = items.to_vec();
    items.sort_by_key(key);
    Value::Array(items)
}

#[tokio::test]
async fn the_answers_are_those_of_the_real_server() {
    // Every request comes a minute after the last one.
    let minutes = Arc::new(AtomicI64::new(0));
    let now = Arc::clone(&minutes);
    let clock = Clock::from_fn(move || {
        Timestamp::from_second(1_800_000_000 + 60 * now.load(Ordering::Relaxed)).unwrap()
    });
    let server = TestServer::builder().clock(clock).start().await;
    let mut versions = HashMap::new();
    let mut differences = Vec::new();
    for line in VECTORS.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        minutes.fetch_add(1, Ordering::Relaxed);
        let body = match &line["body"] {
            Value::Null => Vec::new(),
            Value::String(text) => text.clone().into_bytes(),
            body => body.to_string().into_bytes(),
        };
        let request = http::Request::builder()
            .method(line["method"].as_str().unwrap())
            .uri(line["path"].as_str().unwrap())
            .header("content-type", line["type"].as_str().unwrap())
            .header("accept", "application/json")
            .header("user-agent", "agent/1.0 (x) y")
            .body(body)
            .unwrap();
        let answer = send(&server, request).await;
        let seen = seen(&line, &answer, &mut versions);
        if seen != line["answer"] {
            let request = format!("{} {} {}", line["method"], line["path"], line["body"]);
            differences.push(format!("{request}\n  here  {seen}\n  there {}\n", line["answer"]));
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

const APPLY: &str = "application/apply-patch+yaml";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn apply(server: &TestServer, path: &str, config: Value) -> Answer {
    common::patch(server, APPLY, path, config).await
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data})
}

#[tokio::test]
async fn an_apply_that_changes_nothing_is_not_written_and_not_heard_of() {
    let server = TestServer::start().await;
    let path = format!("{MAPS}/m?fieldManager=one");
    let first = apply(&server, &path, map(json!({"a": "1"}))).await.expect(201);
    let mut events = common::Events::of(&server, &format!("{MAPS}?watch=true")).await;
    assert_eq!(events.brief().await, "ADDED m");
    assert_eq!(apply(&server, &path, map(json!({"a": "1"}))).await.expect(200), first);
    apply(&server, &path, map(json!({"a": "2"}))).await.expect(200);
    let event = events.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["data"]["a"]), (&json!("MODIFIED"), &json!("2")));
}

#[tokio::test]
async fn a_dry_run_says_what_would_come_of_it() {
    let server = TestServer::start().await;
    let path = format!("{MAPS}/m?fieldManager=one&dryRun=All");
    let made = apply(&server, &path, map(json!({"a": "1"}))).await.expect(201);
    assert_eq!(made["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:data": {"f:a": {}}}));
    assert_eq!(common::get(&server, &format!("{MAPS}/m")).await.code, 404);
}

#[tokio::test]
async fn a_client_may_send_the_list_back_as_it_got_it() {
    let server = TestServer::start().await;
    let path = format!("{MAPS}?fieldManager=one");
    let created = common::post(&server, &path, map(json!({"a": "1"}))).await.expect(201);
    let same = common::put(&server, &format!("{MAPS}/m"), created.clone()).await.expect(200);
    assert_eq!(same, created);
    let mut changed = created.clone();
    changed["data"]["b"] = "1".into();
    let changed = common::put(&server, &format!("{MAPS}/m?fieldManager=two"), changed).await.expect(200);
    let entries = &changed["metadata"]["managedFields"];
    assert_eq!(entries[0], created["metadata"]["managedFields"][0]);
    assert_eq!(entries[1]["fieldsV1"], json!({"f:data": {"f:b": {}}}));
    // The same for who changes the list by a patch of its own.
    let first = json!([{"op": "remove", "path": "/metadata/managedFields/0"}]);
    let path = format!("{MAPS}/m?fieldManager=two");
    let left = common::patch(&server, common::JSON_PATCH, &path, first).await.expect(200);
    assert_eq!(left["metadata"]["managedFields"], json!([entries[1]]));
}

#[tokio::test]
async fn every_encoding_shows_the_fields_as_an_object() {
    let server = TestServer::start().await;
    common::post(&server, MAPS, map(json!({"a": "1"}))).await.expect(201);
    let fields = json!({"f:data": {".": {}, "f:a": {}}});
    let path = format!("{MAPS}/m");
    let listed = common::get(&server, MAPS).await.expect(200);
    assert_eq!(listed["items"][0]["metadata"]["managedFields"][0]["fieldsV1"], fields);
    let encodings = [
        ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", false),
        ("application/vnd.kubernetes.protobuf", true),
        ("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", true),
    ];
    for (accept, protobuf) in encodings {
        let request = http::Request::get(&path).header("accept", accept).body(Vec::new()).unwrap();
        let answer = send(&server, request).await;
        let object =
            if protobuf { steersman_api::schema::decode(&answer.bytes).unwrap() } else { answer.json() };
        assert_eq!(object["metadata"]["managedFields"][0]["fieldsV1"], fields, "{accept}");
    }
    let resource = steersman_api::GroupVersionResource::new("", "v1", "configmaps");
    let stored = server.peek(&resource, &steersman_api::ObjectKey::new("default", "m")).unwrap();
    assert_eq!(stored["metadata"]["managedFields"][0]["fieldsV1"], fields);
}

#[tokio::test]
async fn managers_outlive_the_server_where_its_objects_do() {
    let folder = tempfile::tempdir().unwrap();
    let first = TestServer::builder().kept_in(folder.path()).start().await;
    let config = map(json!({"a": "1", "b": "1"}));
    let made = apply(&first, &format!("{MAPS}/m?fieldManager=one"), config).await.expect(201);
    first.stop().await;
    drop(first);
    let second = TestServer::builder().kept_in(folder.path()).start().await;
    assert_eq!(common::get(&second, &format!("{MAPS}/m")).await.expect(200), made);
    let path = format!("{MAPS}/m?fieldManager=one");
    let left = apply(&second, &path, map(json!({"b": "1"}))).await.expect(200);
    assert_eq!(left["data"], json!({"b": "1"}));
}

#[tokio::test]
async fn a_body_that_costs_too_much_is_refused() {
    let server = TestServer::start().await;
    let path = format!("{MAPS}/m?fieldManager=one");
    let bomb = "a: &a [x,x,x,x,x,x,x,x]\n".to_owned()
        + &('b'..='k')
            .map(|at| {
                let before = char::from(at as u8 - 1);
                format!("{at}: &{at} [{}]\n", vec![format!("*{before}"); 8].join(","))
            })
            .collect::<String>();
    let deep = "[".repeat(100_000);
    for body in [bomb, deep, "a: !!binary x\n- b".to_owned(), "\u{0}".to_owned()] {
        let request = http::Request::patch(&path).header("content-type", APPLY);
        let answer = send(&server, request.body(body.clone().into_bytes()).unwrap()).await;
        let (code, reason, message) = answer.refusal();
        assert_eq!((code, reason.as_str()), (400, "BadRequest"), "{message}");
        assert!(message.starts_with("error decoding YAML: ") && message.len() < 500, "{message}");
    }
}
