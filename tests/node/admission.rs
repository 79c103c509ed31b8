//! Pods that the node does not take.

use serde_json::json;

use crate::pods::{Pods, staying};

pub async fn a_pod_too_big_for_the_node_is_refused(pods: Pods) {
    let mut main = staying();
    main["resources"] = json!({ "requests": { "cpu": "10000" } });
    pods.run("big", json!({ "containers": [main] })).await;
    let status = pods.phase("big", &["Failed"]).await.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("OutOfcpu"));
    let message = status.message.unwrap();
    assert!(message.starts_with("Pod was rejected: Node didn't have enough resource: cpu"), "{message}");
}

pub async fn a_pod_for_other_nodes_is_refused(pods: Pods) {
    let selector = json!({ "test.steersman.dev/here": "no" });
    pods.run("elsewhere", json!({ "nodeSelector": selector, "containers": [staying()] })).await;
    let status = pods.phase("elsewhere", &["Failed"]).await.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("NodeAffinity"));
    let selector = json!({ "test.steersman.dev/here": "yes" });
    pods.run("here", json!({ "nodeSelector": selector, "containers": [staying()] })).await;
    pods.ready("here").await;
}
