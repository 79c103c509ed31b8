//! Pods of which only the runtime knows.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use super::{Rig, SOON};
use crate::runtime::simulated::Fault;
use crate::runtime::{Code, Operation};

#[tokio::test]
async fn a_pod_that_was_deleted_meanwhile_is_ended_and_what_fails_of_that_is_told() {
    let mut rig = Rig::start().await;
    rig.create("forgotten", json!({})).await;
    rig.phase("forgotten", "Running").await;
    rig.stop_agent().await;
    rig.pods().delete("forgotten", &DeleteParams::default().grace_period(0)).await.unwrap();
    let busy = Fault::Fails { code: Code::Unknown, message: "busy".into() };
    rig.runtime.inject_for("forgotten", Operation::StopContainer, 1, busy);
    rig.start_agent();
    let events: Api<Event> = Api::namespaced(rig.server.client(), "default");
    let told = async {
        loop {
            let told = events.list(&ListParams::default()).await.unwrap().items;
            let told: Vec<_> = told
                .into_iter()
                .filter(|told| told.involved_object.name.as_deref() == Some("forgotten"))
                .collect();
            let failed = told.iter().any(|told| {
                let message = told.message.as_deref().unwrap_or_default();
                told.reason.as_deref() == Some("FailedKillPod") && message.starts_with("error killing pod: ")
            });
            let named = told.iter().any(|told| {
                let path = told.involved_object.field_path.as_deref();
                told.reason.as_deref() == Some("Killing") && path == Some("spec.containers{app}")
            });
            if failed && named {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, told).await.expect("the failure must be told");
    let gone = async {
        while rig.runtime.calls().iter().filter(|call| call.operation == Operation::StopPodSandbox).count()
            < 2
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, gone).await.expect("it must be ended at the second try");
    rig.stop_agent().await;
}
