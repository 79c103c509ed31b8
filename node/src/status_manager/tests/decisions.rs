//! What is merged, refused, patched.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::{Value, json};

use super::{backing_off, containers, ended, pod, read, running, waiting};
use crate::pod_config::annotations::CONFIG_SOURCE;
use crate::status_manager::merge::{Containers, merge};
use crate::status_manager::normalize::{normalize, same_by_node};
use crate::status_manager::patch::status_patch;
use crate::status_manager::terminate::{self, check_transition};

const NOW: Timestamp = Timestamp::constant(1_700_000_000, 0);

fn a_pod() -> Pod {
    pod(json!({ "containers": containers(&["a"]) }))
}

fn status(value: Value) -> PodStatus {
    read(value)
}

/// Type and status of each condition.
fn conditions(status: &PodStatus) -> Vec<(String, String)> {
    status.conditions.iter().flatten().map(|one| (one.type_.clone(), one.status.clone())).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

#[test]
fn patches_are_byte_for_byte_upstreams() {
    // Made with Kubernetes 1.36.3's PatchPodStatus.
    let mut cases = 0;
    for case in include_str!("patches.txt").split("\n\n").filter(|case| !case.trim().is_empty()) {
        let part = |name: &str| case.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let of = |name: &str| serde_json::from_str::<PodStatus>(part(name)).unwrap();
        let patch = status_patch("u", &of("old "), &of("new ")).unwrap();
        let patch = patch.map(|bytes| String::from_utf8(bytes).unwrap());
        let nothing = r#"{"metadata":{"uid":"u"}}"#;
        assert_eq!(patch.as_deref().unwrap_or(nothing), part("patch "), "{case}");
        cases += 1;
    }
    assert_eq!(cases, 6);
}

#[test]
fn others_conditions_are_theirs_and_ours_are_ours() {
    let theirs = status(json!({ "phase": "Running", "conditions": [
        { "type": "Mine", "status": "True" }, { "type": "Ready", "status": "False" }, { "type": "DisruptionTarget", "status": "True" }],
        "resourceClaimStatuses": [{ "name": "c" }] }));
    let ours = status(json!({ "phase": "Running", "conditions": [
        { "type": "Mine", "status": "False" }, { "type": "Ready", "status": "True" }] }));
    let merged = merge(&a_pod(), &theirs, ours, Containers::MayRun, NOW);
    assert_eq!(
        conditions(&merged),
        pairs(&[("Mine", "True"), ("DisruptionTarget", "True"), ("Ready", "True")])
    );
    assert_eq!(merged.resource_claim_statuses, theirs.resource_claim_statuses);
}

#[test]
fn the_end_of_a_pod_is_told_once_nothing_of_it_runs() {
    let theirs = status(json!({ "phase": "Running", "reason": "before" }));
    let ours = status(json!({ "phase": "Failed", "reason": "Evicted", "conditions": [
        { "type": "Ready", "status": "True" }, { "type": "DisruptionTarget", "status": "True" }] }));
    let held = merge(&a_pod(), &theirs, ours.clone(), Containers::MayRun, NOW);
    assert_eq!((held.phase.as_deref(), held.reason.as_deref()), (Some("Running"), Some("before")));
    assert_eq!(conditions(&held), pairs(&[("Ready", "True")]));

    let told = merge(&a_pod(), &theirs, ours, Containers::Gone, NOW);
    assert_eq!((told.phase.as_deref(), told.reason.as_deref()), (Some("Failed"), Some("Evicted")));
    assert_eq!(
        conditions(&told),
        pairs(&[("Ready", "False"), ("DisruptionTarget", "True"), ("ContainersReady", "False")]),
        "what ended is not ready"
    );
    assert_eq!(told.conditions.unwrap()[0].reason.as_deref(), Some("PodFailed"));
}

#[test]
fn the_end_makes_containers_that_nobody_saw_end_killed_ones() {
    let mut pod = a_pod();
    pod.status = Some(status(json!({ "phase": "Running", "containerStatuses": [running("a")] })));
    let end = terminate::ended(&pod, pod.status.clone().unwrap());
    assert_eq!(end.phase.as_deref(), Some("Failed"));
    let killed = end.container_statuses.unwrap().remove(0).state.unwrap().terminated.unwrap();
    assert_eq!((killed.exit_code, killed.reason.as_deref()), (137, Some("ContainerStatusUnknown")));

    let succeeded = status(json!({ "phase": "Succeeded", "containerStatuses": [ended("a", 0)] }));
    assert_eq!(terminate::ended(&pod, succeeded.clone()), succeeded, "what is known is kept");

    pod.metadata.annotations = Some([(CONFIG_SOURCE.to_owned(), "file".to_owned())].into());
    assert_eq!(
        terminate::ended(&pod, status(json!({ "phase": "Running" }))).phase.as_deref(),
        Some("Running")
    );
}

#[test]
fn containers_of_a_pod_that_was_never_initialized_stay_waiting() {
    let mut pod =
        pod(json!({ "initContainers": containers(&["i", "j", "k"]), "containers": containers(&["a"]) }));
    let known = status(json!({ "phase": "Pending",
        "initContainerStatuses": [ended("i", 1), backing_off("j", 1), waiting("k")], "containerStatuses": [waiting("a")] }));
    pod.status = Some(known.clone());
    let end = terminate::ended(&pod, known);
    let is_ended = |status: &k8s_openapi::api::core::v1::ContainerStatus| {
        status.state.as_ref().unwrap().terminated.as_ref().map(|ended| ended.exit_code)
    };
    let init: Vec<_> = end.init_container_statuses.iter().flatten().map(is_ended).collect();
    assert_eq!(init, [Some(1), Some(137), None]);
    assert_eq!(end.container_statuses.iter().flatten().map(is_ended).collect::<Vec<_>>(), [None]);
}

#[test]
fn a_container_that_ended_for_good_stays_ended() {
    let spec = |policy: &str| {
        pod(json!({ "restartPolicy": policy, "initContainers": containers(&["i"]), "containers": containers(&["a"]) }))
            .spec
            .unwrap()
    };
    let cases = [
        ("Never", ended("a", 0), running("a"), false),
        ("Never", ended("a", 1), waiting("a"), false),
        ("Never", ended("a", 1), ended("a", 1), true),
        ("Never", running("a"), waiting("a"), true),
        ("OnFailure", ended("a", 1), running("a"), true),
        ("OnFailure", ended("a", 0), running("a"), false),
        ("Always", ended("a", 0), running("a"), true),
    ];
    for (policy, old, new, good) in cases {
        let of = |status| PodStatus { container_statuses: Some(vec![status]), ..PodStatus::default() };
        let checked = check_transition(&spec(policy), &of(old.clone()), &of(new));
        assert_eq!(checked.is_ok(), good, "{policy}, {old:?}");
    }
    let of = |status| PodStatus { init_container_statuses: Some(vec![status]), ..PodStatus::default() };
    let checked = check_transition(&spec("Never"), &of(ended("i", 0)), &of(running("i")));
    assert!(checked.unwrap_err().to_string().contains("init container i"));
}

#[test]
fn statuses_are_compared_in_one_form() {
    let pod =
        pod(json!({ "initContainers": containers(&["z", "y"]), "containers": containers(&["a", "b"]) }));
    let mut long = ended("b", 0);
    long.state.as_mut().unwrap().terminated.as_mut().unwrap().message = Some("é".repeat(4000));
    let mut one = status(json!({ "startTime": "2024-01-01T00:00:00.9Z", "reason": "",
        "initContainerStatuses": [waiting("y"), waiting("z")], "containerStatuses": [long, running("a")] }));
    normalize(&pod, &mut one);
    assert_eq!(serde_json::to_value(&one.start_time).unwrap(), "2024-01-01T00:00:00Z");
    assert_eq!(one.reason, None);
    assert_eq!(one.init_container_statuses.as_ref().unwrap()[0].name, "z");
    let of_b = &one.container_statuses.as_ref().unwrap()[1];
    let message = of_b.state.as_ref().unwrap().terminated.as_ref().unwrap().message.as_ref().unwrap();
    assert_eq!((of_b.name.as_str(), message.len()), ("b", 12 * 1024 / 4), "four containers share 12 KiB");

    let mut other = one.clone();
    other.conditions = read(json!([{ "type": "Theirs", "status": "True" }]));
    assert!(same_by_node(&one, &other), "others' conditions don't count");
    other.conditions = read(json!([{ "type": "Ready", "status": "True" }]));
    assert!(!same_by_node(&one, &other));
    let mut later = other.clone();
    later.conditions =
        read(json!([{ "type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z" }]));
    assert!(same_by_node(&other, &later), "nor do times");
    later.phase = Some("Running".to_owned());
    assert!(!same_by_node(&other, &later));
}

#[test]
fn amounts_are_compared_as_such() {
    let pod = a_pod();
    let written = |memory: &str, cpu: &str| {
        let list = json!({ "memory": memory, "cpu": cpu });
        let resources = json!({ "requests": list, "limits": list });
        let mut written = status(json!({
            "containerStatuses": [{
                "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "resources": resources, "allocatedResources": list,
            }],
            "resources": resources, "allocatedResources": list,
        }));
        normalize(&pod, &mut written);
        written
    };
    let as_in_the_manifest = written("0.5Gi", "1000m");
    assert_eq!(as_in_the_manifest, written("512Mi", "1"));
    assert_eq!(as_in_the_manifest.allocated_resources.as_ref().unwrap()["memory"].0, "512Mi");
    assert_ne!(as_in_the_manifest, written("512Mi", "2"));
}
