//! Objects that have taken all the space that they may take.
#![allow(clippy::unwrap_used, reason = "a test may fail in this way")]

mod common;

use common::{MERGE_PATCH, delete, get, patch, post, put};
use serde_json::{Value, json};
use steersman_apiserver::TestServer;
use steersman_testing::pod;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
/// What kube-apiserver answers once etcd's `--quota-backend-bytes` is used up: code, reason and message.
const NO_SPACE: (u16, &str, &str) = (500, "", "etcdserver: mvcc: database space exceeded");

#[track_caller]
fn assert_no_space(answer: &common::Answer) {
    let (code, reason, message) = answer.refusal();
    assert_eq!((code, reason.as_str(), message.as_str()), NO_SPACE);
}

fn map(name: &str, bytes: usize) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v".repeat(bytes)}})
}

/// Makes maps of 40 KB until one is refused, and says how many there are.
async fn fill_up(server: &TestServer) -> usize {
    for n in 0..100 {
        let answer = post(server, MAPS, map(&format!("map-{n}"), 40_000)).await;
        if answer.code != 201 {
            assert_no_space(&answer);
            return n;
        }
    }
    panic!("a hundred maps must be too much");
}

#[tokio::test]
async fn growth_is_refused_in_etcds_words_and_reads_deletes_and_all_else_go_on() {
    let server = TestServer::builder().quota_backend_bytes(800_000).start().await;
    for name in ["going", "staying"] {
        post(&server, PODS, pod(name).on("n").build()).await.expect(201);
    }
    let made = fill_up(&server).await;
    let one = format!("{MAPS}/map-0");
    get(&server, &one).await.expect(200);
    put(&server, &one, map("map-0", 40_000)).await.expect(200);
    assert_no_space(&put(&server, &one, map("map-0", 80_000)).await);
    // A delete with grace takes a mark, and word of how it ended, before the pod is gone.
    let words = json!({"status": {"message": "w".repeat(60_000)}});
    assert_no_space(&patch(&server, MERGE_PATCH, &format!("{PODS}/staying/status"), words.clone()).await);
    let going = format!("{PODS}/going");
    let marked = delete(&server, &going, Value::Null).await.expect(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    patch(&server, MERGE_PATCH, &format!("{going}/status"), words).await.expect(200);
    delete(&server, &going, json!({"gracePeriodSeconds": 0})).await.expect(200);
    get(&server, &going).await.expect(404);
    for n in 0..made {
        delete(&server, &format!("{MAPS}/map-{n}"), Value::Null).await.expect(200);
    }
    assert_eq!(fill_up(&server).await, made, "all space must be free again");
}

#[tokio::test]
async fn a_start_with_more_objects_than_there_may_be_succeeds_so_that_some_can_be_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let of = |bytes| TestServer::builder().kept_in(folder.path()).quota_backend_bytes(bytes);
    let server = of(800_000).start().await;
    let made = fill_up(&server).await;
    delete(&server, "/api/v1/namespaces/kube-node-lease", Value::Null).await.expect(200);
    server.stop().await;
    drop(server);

    let server = of(100_000).start().await;
    assert_no_space(&post(&server, MAPS, map("small", 1)).await);
    for n in 0..made {
        delete(&server, &format!("{MAPS}/map-{n}"), Value::Null).await.expect(200);
    }
    post(&server, MAPS, map("small", 1)).await.expect(201);
}
