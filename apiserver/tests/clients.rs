//! The server as its clients meet it: over a socket, in memory, stopped and started again.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use steersman_apiserver::TestServer;

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "b"}})).unwrap()
}

async fn create_get_list_watch(client: kube::Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let found = namespaces.list(&ListParams::default()).await.unwrap();
    let found: Vec<_> = found.iter().map(ResourceExt::name_any).collect();
    assert_eq!(found, ["default", "kube-node-lease", "kube-public", "kube-system"]);

    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let created = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert!(created.uid().is_some() && created.creation_timestamp().is_some());
    assert_eq!(api.get("a").await.unwrap(), created);
    let list = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), 1);

    let version = list.metadata.resource_version.unwrap();
    let mut events = Box::pin(api.watch(&WatchParams::default(), &version).await.unwrap());
    api.create(&PostParams::default(), &config_map("b")).await.unwrap();
    let Some(WatchEvent::Added(added)) = events.try_next().await.unwrap() else { panic!("no event") };
    assert_eq!(added.name_any(), "b");
}

#[tokio::test]
async fn a_kube_client_over_a_socket_creates_gets_lists_and_watches() {
    let server = TestServer::start().await;
    create_get_list_watch(server.client()).await;
}

#[tokio::test(start_paused = true)]
async fn a_kube_client_in_memory_does_the_same_with_a_paused_clock() {
    let server = TestServer::start().await;
    let before = tokio::time::Instant::now();
    create_get_list_watch(server.in_memory_client()).await;
    assert_eq!(before.elapsed(), std::time::Duration::ZERO);
}

#[tokio::test]
async fn http_2_is_served_to_who_knows_it() {
    let server = TestServer::start().await;
    let executor = hyper_util::rt::TokioExecutor::new();
    let client = hyper_util::client::legacy::Client::builder(executor).http2_only(true).build_http();
    let request = http::Request::get(format!("{}/api/v1/namespaces/default", server.url()));
    let body = http_body_util::Empty::<bytes::Bytes>::new();
    let answer = client.request(request.body(body).unwrap()).await.unwrap();
    assert_eq!((answer.version(), answer.status().as_u16()), (http::Version::HTTP_2, 200));
}

#[tokio::test]
async fn a_restarted_server_listens_at_the_same_port_and_has_its_objects() {
    let server = TestServer::start().await;
    let client = server.client();
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = Box::pin(api.watch(&WatchParams::default(), &version).await.unwrap());
    let url = server.url();
    server.stop().await;
    assert!(!matches!(events.try_next().await, Ok(Some(_))), "a watch under way must break");
    assert!(api.get("a").await.is_err(), "nobody listens");
    server.restart().await.unwrap();
    assert_eq!(server.url(), url);
    assert_eq!(api.get("a").await.unwrap().name_any(), "a");
    let mut events = Box::pin(api.watch(&WatchParams::default(), &version).await.unwrap());
    api.create(&PostParams::default(), &config_map("b")).await.unwrap();
    assert!(matches!(events.try_next().await.unwrap(), Some(WatchEvent::Added(_))));
}

#[tokio::test]
async fn a_dropped_server_leaves_no_task_behind() {
    let server = TestServer::start().await;
    let client = server.client();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let mut events = Box::pin(api.watch(&WatchParams::default(), "0").await.unwrap());
    drop(server);
    assert!(!matches!(events.try_next().await, Ok(Some(_))), "the watch must end");
    drop((events, api));
    let metrics = tokio::runtime::Handle::current().metrics();
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
    while metrics.num_alive_tasks() > 0 {
        assert!(tokio::time::Instant::now() < deadline, "{} tasks are left", metrics.num_alive_tasks());
        tokio::task::yield_now().await;
    }
}
