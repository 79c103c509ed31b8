//! Pods that are deleted while they start.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use super::{Rig, SOON};
use crate::runtime::Operation;
use crate::runtime::simulated::Fault;

/// How long the call takes that the pod is deleted in.
const CALL: Duration = Duration::from_secs(1);

impl Rig {
    /// Whether the runtime was called so for the pod.
    fn was_called(&self, operation: Operation, pod: &str) -> bool {
        let calls = self.runtime.calls();
        calls
            .iter()
            .any(|call| call.operation == operation && call.targets.iter().any(|target| target == pod))
    }

    async fn until_called(&self, operation: Operation, pod: &str) {
        let called = async {
            while !self.was_called(operation, pod) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let called = tokio::time::timeout(SOON, called).await;
        called.unwrap_or_else(|_| panic!("{operation:?} is not called for {pod}"));
    }

    /// Creates a pod, deletes it during that call, and waits until it is gone.
    async fn delete_during(&self, operation: Operation, pod: &str) {
        self.runtime.inject_for(pod, operation, 1, Fault::Slow(CALL));
        self.create(pod, json!({})).await;
        self.until_called(operation, pod).await;
        self.pods().delete(pod, &DeleteParams::default()).await.unwrap();
        self.gone(pod).await;
    }
}

#[tokio::test]
async fn a_pod_that_is_deleted_meanwhile_cancels_no_call_that_makes_or_starts_something() {
    let mut rig = Rig::start().await;
    rig.delete_during(Operation::RunPodSandbox, "sandboxed").await;
    assert!(rig.was_called(Operation::StopPodSandbox, "sandboxed"), "there is no sandbox to stop");
    assert!(!rig.was_called(Operation::CreateContainer, "sandboxed"), "a container comes after the deletion");

    rig.delete_during(Operation::CreateContainer, "created").await;
    rig.until_called(Operation::RemoveContainer, "created").await;
    assert!(!rig.was_called(Operation::StartContainer, "created"), "a container starts after the deletion");

    rig.delete_during(Operation::StartContainer, "started").await;
    assert!(rig.was_called(Operation::StopContainer, "started"), "there is no container to stop");
    let events: Api<Event> = Api::namespaced(rig.server.client(), "default");
    let told = async {
        loop {
            let all = events.list(&ListParams::default()).await.unwrap().items;
            let started = all.iter().any(|event| {
                event.involved_object.name.as_deref() == Some("started")
                    && event.reason.as_deref() == Some("Started")
            });
            if started {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, told).await.expect("the start must be told");
    rig.stop_agent().await;
}
