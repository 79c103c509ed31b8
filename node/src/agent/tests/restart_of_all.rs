//! Pods whose containers all start over.

use k8s_openapi::api::core::v1::ContainerStatus;
use serde_json::json;

use super::{Rig, is_ready};

/// What a container's status tells, in short: what it does, how often it was started again, and why it ended before.
fn told(status: &ContainerStatus) -> (bool, i32, Option<(i32, String)>) {
    let runs = status.state.as_ref().is_some_and(|state| state.running.is_some());
    let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let last = last.map(|last| (last.exit_code, last.reason.clone().unwrap_or_default()));
    (runs, status.restart_count, last)
}

#[tokio::test]
async fn a_sidecars_end_restarts_all_even_where_the_pod_never_restarts() {
    let mut rig = Rig::start().await;
    rig.node_until("ready", is_ready).await;
    let rule = json!({"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}});
    let image = "busybox:1.36";
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [
            {"name": "first", "image": image},
            {"name": "beside", "image": image, "restartPolicy": "Always", "restartPolicyRules": [rule]},
        ],
        "containers": [{"name": "app", "image": image}],
    });
    let behaviour = json!({
        "simulated.steersman.io/exit-after.first": "0s",
        "simulated.steersman.io/exit-after.beside": "500ms,never",
        "simulated.steersman.io/exit-code.beside": "42",
    });
    rig.create_with("together", behaviour, spec).await;
    let again = rig
        .pod_until("together", "running again", |pod| {
            let status = pod.status.as_ref();
            let app = status.and_then(|status| status.container_statuses.as_ref()?.first());
            let phase = status.and_then(|status| status.phase.as_deref());
            phase == Some("Running") && app.is_some_and(|app| told(app).0 && app.restart_count == 1)
        })
        .await;
    let status = again.status.unwrap();
    let removed = Some((137, "RestartingAllContainers".to_owned()));
    let init = status.init_container_statuses.unwrap();
    assert_eq!(told(&status.container_statuses.unwrap()[0]), (true, 1, removed.clone()));
    assert_eq!((told(&init[0]).0, told(&init[0]).1), (false, 1), "init containers run again: {init:?}");
    assert_eq!(told(&init[1]), (true, 1, removed));
    let conditions = status.conditions.unwrap();
    let restarting = conditions.iter().find(|told| told.type_ == "AllContainersRestarting").unwrap();
    assert_eq!(restarting.status, "False", "it is over");
    rig.stop_agent().await;
}
