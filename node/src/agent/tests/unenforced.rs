//! Limits that a pod asks for and that this agent does not hold it to.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use super::{Rig, SOON};

#[tokio::test]
async fn limits_on_disk_space_that_nobody_enforces_are_told_by_an_event() {
    let mut rig = Rig::start().await;
    let spec = json!({
        "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}],
        "containers": [{
            "name": "app", "image": "busybox:1.36",
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            "resources": {"limits": {"ephemeral-storage": "2Mi"}},
        }],
    });
    rig.create_with("limited", json!({}), spec).await;
    rig.phase("limited", "Running").await;
    let events: Api<Event> = Api::namespaced(rig.server.client(), "default");
    let told = async {
        loop {
            let all = events.list(&ListParams::default()).await.unwrap().items;
            let told = all.into_iter().find(|event| event.reason.as_deref() == Some("LimitNotEnforced"));
            match told {
                Some(told) => return (told.type_, told.message),
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let (kind, message) = tokio::time::timeout(SOON, told).await.expect("the limits must be told of");
    assert_eq!(kind.as_deref(), Some("Warning"));
    let message = message.unwrap();
    for part in ["sizeLimit of emptyDir volume \"scratch\"", "ephemeral-storage limit of container \"app\""] {
        assert!(message.contains(part), "{message}");
    }
    rig.stop_agent().await;
}
