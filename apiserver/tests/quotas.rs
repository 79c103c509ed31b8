//! What is used of quotas follows what is there.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use steersman_apiserver::{Identity, InMemory, Options, Server};
use tower::ServiceExt;

const PODS: &str = "/api/v1/namespaces/default/pods";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

async fn ask(server: &InMemory, method: &str, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let patch = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", patch);
    let answer = server.clone().oneshot(request.body(kube::client::Body::from(body)).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

/// Asks for the quota until so much is used of it.
async fn used(server: &InMemory, expected: Value) {
    let path = format!("{QUOTAS}/q");
    let asking = async {
        while ask(server, "GET", &path, Value::Null).await.1["status"]["used"] != expected {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), asking).await;
    assert!(
        waited.is_ok(),
        "{expected} must be used, not {:#}",
        ask(server, "GET", &path, Value::Null).await.1
    );
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]},
    })
}

#[tokio::test]
async fn what_goes_or_ends_makes_room_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(Options {
        settings: Default::default(),
        data_folder: folder.path().join("data"),
        address: ([127, 0, 0, 1], 0).into(),
        limits: Default::default(),
        names: Vec::new(),
    })
    .await
    .unwrap();
    let all = server.in_memory(Identity::master("test"));
    assert_eq!(ask(&all, "POST", PODS, pod("early")).await.0, 201);
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2", "requests.cpu": "1"}}});
    assert_eq!(ask(&all, "POST", QUOTAS, quota).await.0, 201);
    used(&all, json!({"pods": "1", "requests.cpu": "100m"})).await;

    assert_eq!(ask(&all, "POST", PODS, pod("a")).await.0, 201);
    used(&all, json!({"pods": "2", "requests.cpu": "200m"})).await;
    let (code, refused) = ask(&all, "POST", PODS, pod("b")).await;
    let why = "pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    assert_eq!((code, refused["message"].as_str()), (403, Some(why)));

    let ended = json!({"status": {"phase": "Succeeded"}});
    assert_eq!(ask(&all, "PATCH", &format!("{PODS}/a/status"), ended).await.0, 200);
    used(&all, json!({"pods": "1", "requests.cpu": "100m"})).await;
    assert_eq!(ask(&all, "DELETE", &format!("{PODS}/early"), Value::Null).await.0, 200);
    used(&all, json!({"pods": "0", "requests.cpu": "0"})).await;

    let wider = json!({"spec": {"hard": {"requests.cpu": null, "configmaps": "9"}}});
    assert_eq!(ask(&all, "PATCH", &format!("{QUOTAS}/q"), wider).await.0, 200);
    used(&all, json!({"configmaps": "0", "pods": "0"})).await;
    server.stop().await;
}
