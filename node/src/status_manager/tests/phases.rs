//! Containers' states in, phases and conditions out.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use serde_json::{Value, json};

use super::{backing_off, containers, ended, pod, read, running, waiting};
use crate::pod_config::annotations::CONFIG_SOURCE;
use crate::status_manager::conditions::{self, Sandbox};
use crate::status_manager::phase::{Stage, phase};

fn with_policy(policy: &str, names: &[&str]) -> Pod {
    pod(json!({ "restartPolicy": policy, "containers": containers(names) }))
}

#[test]
fn the_phase_follows_from_containers_and_the_restart_policy() {
    let cases: [(&str, Vec<ContainerStatus>, &str); 16] = [
        ("Always", vec![], "Pending"),
        ("Always", vec![waiting("a"), running("b")], "Pending"),
        ("Always", vec![running("a")], "Pending"),
        ("Always", vec![running("a"), running("b")], "Running"),
        ("Always", vec![running("a"), ended("b", 1)], "Running"),
        ("Always", vec![ended("a", 0), ended("b", 0)], "Running"),
        ("Always", vec![backing_off("a", 1), ended("b", 0)], "Running"),
        ("OnFailure", vec![ended("a", 0), ended("b", 0)], "Succeeded"),
        ("OnFailure", vec![ended("a", 0), ended("b", 1)], "Running"),
        ("OnFailure", vec![ended("a", 0), backing_off("b", 1)], "Running"),
        ("OnFailure", vec![ended("a", 0), running("b")], "Running"),
        ("Never", vec![ended("a", 0), ended("b", 0)], "Succeeded"),
        ("Never", vec![ended("a", 0), ended("b", 1)], "Failed"),
        ("Never", vec![ended("a", 0), backing_off("b", 0)], "Failed"),
        ("Never", vec![ended("a", 0), running("b")], "Running"),
        ("Never", vec![ended("a", 0), waiting("b")], "Pending"),
    ];
    for (policy, statuses, expected) in cases {
        let pod = with_policy(policy, &["a", "b"]);
        assert_eq!(phase(&pod, &statuses, Stage::Running, false), expected, "{policy} {statuses:?}");
    }
}

#[test]
fn a_pod_that_is_ended_has_a_result_whatever_its_policy_unless_it_is_static() {
    let mut pod = with_policy("Always", &["a", "b"]);
    let good = [ended("a", 0), ended("b", 0)];
    let bad = [ended("a", 0), backing_off("b", 1)];
    assert_eq!(phase(&pod, &good, Stage::Ended, true), "Succeeded");
    assert_eq!(phase(&pod, &bad, Stage::Ended, true), "Failed");
    pod.metadata.annotations = Some([(CONFIG_SOURCE.to_owned(), "file".to_owned())].into());
    assert_eq!(phase(&pod, &good, Stage::Ended, true), "Running");
}

/// A pod with init container `i` and sidecar `s` before `a`.
fn with_init(policy: &str) -> Pod {
    let mut init = containers(&["i", "s"]);
    init[1]["restartPolicy"] = "Always".into();
    pod(json!({ "restartPolicy": policy, "initContainers": init, "containers": containers(&["a"]) }))
}

#[test]
fn init_containers_hold_the_pod_pending_and_may_fail_it() {
    let mut unstarted = running("s");
    unstarted.started = Some(false);
    let cases: [(&str, Vec<ContainerStatus>, bool, &str); 9] = [
        ("Always", vec![running("i")], false, "Pending"),
        ("Always", vec![ended("i", 1), waiting("s"), waiting("a")], false, "Pending"),
        ("Never", vec![ended("i", 1), waiting("s"), waiting("a")], false, "Failed"),
        ("Never", vec![backing_off("i", 1), waiting("s"), waiting("a")], false, "Failed"),
        ("Never", vec![ended("i", 0), running("s"), running("a")], false, "Running"),
        ("Never", vec![ended("i", 0), unstarted.clone(), ended("a", 0)], false, "Pending"),
        ("Never", vec![ended("i", 0), unstarted, running("a")], true, "Running"),
        ("Never", vec![ended("i", 0), ended("s", 1), ended("a", 0)], true, "Succeeded"),
        ("Never", vec![ended("i", 0), running("s"), ended("a", 0)], true, "Running"),
    ];
    for (policy, statuses, initialized, expected) in cases {
        assert_eq!(
            phase(&with_init(policy), &statuses, Stage::Running, initialized),
            expected,
            "{policy} {statuses:?}"
        );
    }
}

#[test]
fn a_containers_own_rules_come_before_its_policy_and_the_pods() {
    let mut pod = with_policy("Never", &["a"]);
    let container = &mut pod.spec.as_mut().unwrap().containers[0];
    container.restart_policy = Some("Never".to_owned());
    container.restart_policy_rules =
        Some(read(json!([{ "action": "Restart", "exitCodes": { "operator": "In", "values": [42] } }])));
    assert_eq!(phase(&pod, &[ended("a", 42)], Stage::Running, true), "Running");
    assert_eq!(phase(&pod, &[ended("a", 1)], Stage::Running, true), "Failed");
    pod.spec.as_mut().unwrap().containers[0].restart_policy = Some("OnFailure".to_owned());
    assert_eq!(phase(&pod, &[ended("a", 1)], Stage::Running, true), "Running");
}

/// Status, reason, message.
fn told(condition: k8s_openapi::api::core::v1::PodCondition) -> (String, String, String) {
    assert_eq!(condition.observed_generation, Some(3), "of the generation that the pod has");
    (condition.status, condition.reason.unwrap_or_default(), condition.message.unwrap_or_default())
}

fn words(status: &str, reason: &str, message: &str) -> (String, String, String) {
    (status.to_owned(), reason.to_owned(), message.to_owned())
}

#[test]
fn containers_are_ready_when_each_is_known_to_be() {
    let pod = with_init("Always");
    let cases = [
        (None, "Running", words("False", "UnknownContainerStatuses", "")),
        (Some(vec![running("s"), running("a")]), "Running", words("True", "", "")),
        (
            Some(vec![waiting("a")]),
            "Pending",
            words(
                "False",
                "ContainersNotReady",
                "containers with unknown status: [s], containers with unready status: [a]",
            ),
        ),
        (
            Some(vec![ended("s", 0), ended("a", 0)]),
            "Running",
            words("False", "ContainersNotReady", "containers with unready status: [s a]"),
        ),
        (Some(vec![ended("s", 0), ended("a", 0)]), "Succeeded", words("False", "PodCompleted", "")),
        (Some(vec![running("s"), running("a")]), "Failed", words("False", "PodFailed", "")),
    ];
    for (statuses, phase, expected) in cases {
        assert_eq!(told(conditions::containers_ready(&pod, statuses.as_deref(), Some(phase))), expected);
        let ready = conditions::ready(&pod, &[], statuses.as_deref(), Some(phase));
        assert_eq!(ready.type_, "Ready");
        assert_eq!(told(ready), expected);
    }
}

#[test]
fn readiness_gates_must_be_true_too() {
    let mut pod = with_policy("Always", &["a"]);
    pod.spec.as_mut().unwrap().readiness_gates =
        Some(read(json!([{ "conditionType": "g/a" }, { "conditionType": "g/b" }])));
    let ready = |conditions: Value| {
        let conditions: Vec<_> = read(conditions);
        told(conditions::ready(&pod, &conditions, Some(&[running("a")]), Some("Running")))
    };
    assert_eq!(
        ready(json!([{ "type": "g/b", "status": "False" }])),
        words(
            "False",
            "ReadinessGatesNotReady",
            "corresponding condition of pod readiness gate \"g/a\" does not exist., the status of pod readiness gate \
             \"g/b\" is not \"True\", but False",
        )
    );
    let both = json!([{ "type": "g/b", "status": "True" }, { "type": "g/a", "status": "True" }]);
    assert_eq!(ready(both), words("True", "", ""));
}

#[test]
fn a_gate_that_changed_calls_for_another_ready_condition() {
    let mut pod = with_policy("Always", &["a"]);
    let gate = |status: &str, ready: &str| -> PodStatus {
        read(json!({
            "phase": "Running",
            "containerStatuses": [running("a")],
            "conditions": [{ "type": "g", "status": status }, { "type": "Ready", "status": ready }],
        }))
    };
    pod.status = Some(gate("True", "False"));
    assert!(!conditions::needs_readiness_reconciled(&pod), "without gates nothing depends on others");
    pod.spec.as_mut().unwrap().readiness_gates = Some(read(json!([{ "conditionType": "g" }])));
    assert!(conditions::needs_readiness_reconciled(&pod));
    pod.status = Some(gate("True", "True"));
    assert!(!conditions::needs_readiness_reconciled(&pod));
}

#[test]
fn a_pod_is_initialized_once_its_init_containers_are_done_and_stays_so() {
    let pod = with_init("Always");
    let mut done = ended("i", 0);
    done.ready = true;
    let mut unstarted = running("s");
    unstarted.started = Some(false);
    let before: PodStatus = read(json!({ "conditions": [{ "type": "Initialized", "status": "True" }] }));
    let never = PodStatus::default();
    let incomplete = words("False", "ContainersNotInitialized", "containers with incomplete status: [i s]");
    let cases = [
        (None, &never, "Pending", words("False", "UnknownContainerStatuses", "")),
        (
            Some(vec![running("i"), waiting("s")]),
            &never,
            "Pending",
            words("False", "ContainersNotInitialized", "containers with incomplete status: [s]"),
        ),
        (Some(vec![waiting("i"), unstarted.clone()]), &never, "Pending", incomplete),
        (Some(vec![waiting("i"), unstarted.clone()]), &before, "Pending", words("True", "", "")),
        (Some(vec![done.clone(), running("s")]), &never, "Pending", words("True", "", "")),
        (Some(vec![running("a")]), &never, "Running", words("True", "", "")),
        (
            Some(vec![done, ended("s", 0), ended("a", 0)]),
            &never,
            "Succeeded",
            words("True", "PodCompleted", ""),
        ),
    ];
    for (statuses, old, phase, expected) in cases {
        assert_eq!(
            told(conditions::initialized(&pod, old, statuses.as_deref(), Some(phase))),
            expected,
            "{statuses:?}"
        );
    }
}

#[test]
fn the_sandbox_tells_whether_containers_can_start() {
    let pod = with_policy("Always", &["a"]);
    assert_eq!(told(conditions::ready_to_start_containers(&pod, Sandbox::Ready)), words("True", "", ""));
    assert_eq!(told(conditions::ready_to_start_containers(&pod, Sandbox::Needed)), words("False", "", ""));
    assert_eq!(told(conditions::scheduled(&pod)), words("True", "", ""));
}
