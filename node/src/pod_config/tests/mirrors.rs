//! Mirror pods, planned and made.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use steersman_api::{GroupVersionResource, ObjectKey};
use steersman_apiserver::{Calls, Failure, TestServer, Verb};

use super::read;
use crate::pod_config::annotations::{CONFIG_HASH, CONFIG_MIRROR, CONFIG_SOURCE};
use crate::pod_config::mirror::{Error, MirrorClient, MirrorPlan, mirror_of, plan};

fn static_pod(hash: &str) -> Pod {
    read(json!({
        "metadata": {
            "name": "web-n", "namespace": "default", "uid": hash,
            "annotations": { CONFIG_HASH: hash, CONFIG_SOURCE: "file" },
        },
        "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] },
    }))
}

fn stored(server: &TestServer) -> Option<serde_json::Value> {
    server.peek(&GroupVersionResource::new("", "v1", "pods"), &ObjectKey::new("default", "web-n"))
}

#[test]
fn a_mirror_is_kept_made_or_replaced() {
    let pod = static_pod("1");
    let mut mirror = mirror_of(&pod, "n", "node-uid");
    mirror.metadata.uid = Some("m".to_owned());
    assert_eq!(plan(&pod, None), MirrorPlan::Create);
    assert_eq!(plan(&pod, Some(&mirror)), MirrorPlan::Keep);
    let replace = MirrorPlan::Replace { uid: "m".to_owned() };
    assert_eq!(plan(&static_pod("2"), Some(&mirror)), replace, "it mirrors another state");
    let mut ending = mirror.clone();
    ending.metadata.deletion_timestamp = serde_json::from_value(json!("2024-01-01T00:00:00Z")).unwrap();
    assert_eq!(plan(&pod, Some(&ending)), replace, "somebody deletes it");
    mirror.metadata.annotations.as_mut().unwrap().remove(CONFIG_MIRROR);
    assert_eq!(plan(&pod, Some(&mirror)), replace, "it is no mirror");
}

#[tokio::test]
async fn a_mirror_is_owned_by_its_node_and_carries_the_hash() {
    let server = TestServer::start().await;
    let client = MirrorClient::new(server.in_memory_client(), "n");
    client.create(&static_pod("1"), Some("node-uid")).await.unwrap();
    let mirror = stored(&server).unwrap();
    assert_eq!(mirror["metadata"]["annotations"][CONFIG_MIRROR], "1");
    assert_eq!(
        mirror["metadata"]["ownerReferences"],
        json!([{ "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "node-uid", "controller": true }])
    );
    assert_ne!(mirror["metadata"]["uid"], "1");
}

#[tokio::test]
async fn a_mirror_that_is_there_already_will_do_if_it_mirrors_the_same() {
    let server = TestServer::start().await;
    let client = MirrorClient::new(server.in_memory_client(), "n");
    let creates = Calls::to("pods").verb(Verb::Create);
    server.faults().fail(1, creates, Failure::TimeoutAfterwards);
    assert!(matches!(client.create(&static_pod("1"), Some("u")).await, Err(Error::Create { .. })));
    client.create(&static_pod("1"), Some("u")).await.unwrap();
    assert!(matches!(client.create(&static_pod("2"), Some("u")).await, Err(Error::Create { .. })));
}

#[tokio::test]
async fn without_the_nodes_uid_nothing_is_asked() {
    let server = TestServer::start().await;
    let recording = server.record();
    let client = MirrorClient::new(server.in_memory_client(), "n");
    for uid in [None, Some("")] {
        assert!(matches!(client.create(&static_pod("1"), uid).await, Err(Error::NodeUid(_))));
    }
    assert_eq!(recording.requests().len(), 0);
}

#[tokio::test]
async fn only_the_mirror_of_that_uid_is_deleted_and_at_once() {
    let server = TestServer::start().await;
    let client = MirrorClient::new(server.in_memory_client(), "n");
    let pod = static_pod("1");
    assert!(!client.delete(&pod, None).await.unwrap(), "there is none");
    client.create(&pod, Some("u")).await.unwrap();
    assert!(!client.delete(&pod, Some("another")).await.unwrap());
    let uid = stored(&server).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let changed = static_pod("2");
    client.carry_out(&MirrorPlan::Replace { uid: uid.clone() }, &changed, Some("u")).await.unwrap();
    let mirror = stored(&server).unwrap();
    assert_eq!(mirror["metadata"]["annotations"][CONFIG_MIRROR], "2");
    assert_ne!(mirror["metadata"]["uid"].as_str(), Some(&*uid));
    server.faults().fail(1, Calls::to("pods").verb(Verb::Delete), Failure::InternalError);
    assert!(matches!(client.delete(&changed, None).await, Err(Error::Delete { .. })));
    assert!(client.delete(&changed, None).await.unwrap());
    assert_eq!(stored(&server), None);
}
