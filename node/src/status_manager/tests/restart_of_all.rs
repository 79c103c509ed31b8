//! The statuses of pods whose containers all start over.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use serde_json::{Value, json};

use super::generated::{exited, runs, seen};
use super::{ended, pod, read, running, waiting};
use crate::container::ContainerResources;
use crate::restart_policy::RestartOfAll;
use crate::status_manager::conditions::Sandbox;
use crate::status_manager::phase::Stage;
use crate::status_manager::statuses::{ObservedContainer, ObservedState};
use crate::status_manager::{Observed, generate};

/// A pod that never restarts, but for all together when `a` ends with 42.
fn asking() -> Pod {
    let rule = json!({ "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [42] } });
    let a = json!({ "name": "a", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [rule] });
    pod(json!({ "restartPolicy": "Never", "containers": [a, { "name": "b", "image": "i" }] }))
}

fn generated(
    pod: &Pod,
    old: &[ContainerStatus],
    observed: &[ObservedContainer],
    restart_of_all: RestartOfAll,
) -> PodStatus {
    let old = PodStatus { container_statuses: Some(old.to_vec()), ..PodStatus::default() };
    let observed = Observed {
        pod,
        old: &old,
        containers: observed,
        failures: &BTreeMap::new(),
        sandbox: Sandbox::Ready,
        initialized: true,
        stage: Stage::Running,
        restart_of_all,
        pod_ips: &[],
        host_ips: &[],
        qos_class: "BestEffort",
        eviction: None,
        given: ContainerResources::default(),
        resize: &[],
    };
    generate(&observed, &|_, _| {})
}

/// What is said of the restart, if anything.
fn condition(status: &PodStatus) -> Value {
    let mut conditions = status.conditions.iter().flatten();
    let told = conditions.find(|condition| condition.type_ == "AllContainersRestarting");
    json!(told.map(|told| (&told.status, &told.reason, &told.message)))
}

#[test]
fn what_was_removed_to_start_over_waits_and_tells_why() {
    let mut ran = running("b");
    ran.restart_count = 2;
    let observed = [seen("a", 0, exited(42))];
    for old in [ran, ContainerStatus { restart_count: 2, ..ended("b", 0) }] {
        let status = generated(&asking(), &[running("a"), old], &observed, RestartOfAll::Removing);
        let b = json!(status.container_statuses.unwrap()[1]);
        let message = "The container is removed because RestartAllContainers in place";
        assert_eq!(
            (&b["state"], &b["lastState"], &b["restartCount"]),
            (
                &json!({ "waiting": { "reason": "RestartingAllContainers", "message": message } }),
                &json!({ "terminated": {
                    "exitCode": 137, "reason": "RestartingAllContainers", "message": message,
                } }),
                &json!(3)
            )
        );
        assert_eq!(status.phase.as_deref(), Some("Running"), "both are on their way to start again");
    }
    // It is counted once.
    let waits = ContainerStatus { restart_count: 3, ..waiting("b") };
    let status = generated(&asking(), &[running("a"), waits], &observed, RestartOfAll::Removing);
    let b = json!(status.container_statuses.unwrap()[1]);
    assert_eq!(
        (&b["restartCount"], &b["state"]["waiting"]["reason"]),
        (&json!(3), &json!("ContainerCreating"))
    );
    // A runtime that does not know it any more tells the same.
    let lost = [seen("a", 0, exited(42)), seen("b", 0, ObservedState::Unknown)];
    let status = generated(&asking(), &[running("a"), running("b")], &lost, RestartOfAll::Removing);
    let b = json!(status.container_statuses.unwrap()[1]);
    assert_eq!(b["state"]["terminated"]["reason"], "RestartingAllContainers");
}

#[test]
fn the_condition_is_true_until_all_are_removed() {
    let of = |pod: &Pod, observed: &[ObservedContainer], restart_of_all| {
        condition(&generated(pod, &[running("a"), running("b")], observed, restart_of_all))
    };
    let one_ended = [seen("a", 0, exited(42)), seen("b", 0, runs())];
    let no = json!(["False", null, null]);
    let yes = json!(["True", "RestartAllContainersStarted", "container exited with restart policy rule"]);
    assert_eq!(of(&asking(), &one_ended, RestartOfAll::NotAsked), no);
    assert_eq!(of(&asking(), &one_ended, RestartOfAll::Removing), yes);
    assert_eq!(of(&asking(), &[], RestartOfAll::Removed), no);
    for (exit_code, reason) in [(0, "PodCompleted"), (1, "PodFailed")] {
        let all_ended = [seen("a", 0, exited(exit_code)), seen("b", 0, exited(exit_code))];
        assert_eq!(of(&asking(), &all_ended, RestartOfAll::NotAsked), json!(["False", reason, null]));
    }
    let nobody_may_ask = pod(json!({ "containers": super::containers(&["a", "b"]) }));
    assert_eq!(of(&nobody_may_ask, &one_ended, RestartOfAll::NotAsked), Value::Null);
    let status = generated(&asking(), &[], &one_ended, RestartOfAll::Removing);
    let status: Value = read(json!(status));
    let told = status["conditions"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&told["type"], &told["observedGeneration"]),
        (&json!("AllContainersRestarting"), &Value::Null)
    );
}
