use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::json;

use super::{BEGINNING, at, container_status, pod, running};
use crate::kuberuntime::actions::ProbeResult::{Failure, Success, Unknown};
use crate::probes::readiness::{Known, Then, update};
use crate::status_manager::statuses::Role;

const NOTHING: Known = Known {
    startup: None,
    has_startup: false,
    readiness: None,
    has_readiness: false,
    before_agent: jiff::Timestamp::UNIX_EPOCH,
};

/// `started`, `ready`, and what to do.
fn after(pod: &Pod, mut status: ContainerStatus, known: Known) -> (Option<bool>, bool, Then) {
    let then = update(pod, Role::Ordinary, &mut status, known);
    (status.started, status.ready, then)
}

#[test]
fn a_container_is_started_and_ready_as_its_probes_found() {
    let pod = pod(json!({ "startupProbe": { "exec": {} }, "readinessProbe": { "exec": {} } }));
    let new = || running("1", BEGINNING, false);
    let (both, ready) = (Known { has_startup: true, has_readiness: true, ..NOTHING }, Then::ProbeReadiness);
    for (case, known, expected) in [
        ("no probes", NOTHING, (Some(true), true, Then::Nothing)),
        ("not probed", both, (Some(false), false, Then::Nothing)),
        ("starting", Known { startup: Some(Unknown), ..both }, (Some(false), false, Then::Nothing)),
        ("not started", Known { startup: Some(Failure), ..both }, (Some(false), false, Then::Nothing)),
        ("started", Known { startup: Some(Success), ..both }, (Some(true), false, ready)),
        (
            "ready before it has started",
            Known { startup: Some(Failure), readiness: Some(Success), ..both },
            (Some(false), false, Then::Nothing),
        ),
        (
            "ready",
            Known { startup: Some(Success), readiness: Some(Success), ..both },
            (Some(true), true, Then::Nothing),
        ),
        (
            "not ready",
            Known { startup: Some(Success), readiness: Some(Failure), ..both },
            (Some(true), false, ready),
        ),
        ("readiness alone", Known { has_readiness: true, ..NOTHING }, (Some(true), false, ready)),
    ] {
        assert_eq!(after(&pod, new(), known), expected, "{case}");
    }
}

#[test]
fn what_does_not_run_is_neither() {
    let pod = pod(json!({}));
    let status = container_status("1", json!({ "state": { "waiting": {} } }));
    assert_eq!(after(&pod, status, NOTHING), (Some(false), false, Then::Nothing));
}

#[test]
fn a_new_agent_leaves_ready_what_was_ready() {
    let known = Known { has_startup: true, has_readiness: true, before_agent: at(BEGINNING), ..NOTHING };
    let (old, new) = (BEGINNING - 1, BEGINNING + 1);
    let with_condition = |status: &str| {
        let probes = json!({ "readinessProbe": { "exec": {} }, "startupProbe": { "exec": {} } });
        let mut pod = (*pod(probes)).clone();
        pod.status = Some(super::read(json!({ "conditions": [{ "type": "Ready", "status": status }] })));
        pod
    };
    let then = Then::ProbeReadiness;
    for (case, ready, since, known, expected) in [
        ("was ready", "True", old, known, (Some(true), true, then)),
        ("was not ready", "False", old, known, (Some(true), false, then)),
        ("is new", "True", new, known, (Some(true), false, then)),
        ("was probed", "True", old, Known { readiness: Some(Failure), ..known }, (Some(true), false, then)),
    ] {
        assert_eq!(after(&with_condition(ready), running("1", since, true), known), expected, "{case}");
    }
    // What had not started has not.
    assert_eq!(
        after(&with_condition("True"), running("1", old, false), known),
        (Some(false), false, Then::Nothing)
    );
}

#[test]
fn init_containers_are_ready_when_they_ended_well_and_sidecars_as_others_are() {
    let pod: Pod = super::read(json!({ "spec": { "containers": [], "initContainers": [
        { "name": "c", "image": "i" },
        { "name": "sidecar", "image": "i", "restartPolicy": "Always" },
    ] } }));
    let init = |mut status: ContainerStatus, name: &str| {
        status.name = name.to_owned();
        update(&pod, Role::Init, &mut status, NOTHING);
        (status.started, status.ready)
    };
    let ended = |code: i32| container_status("1", json!({ "state": { "terminated": { "exitCode": code } } }));
    assert_eq!(init(ended(0), "c"), (Some(false), true));
    assert_eq!(init(ended(1), "c"), (Some(false), false));
    assert_eq!(init(running("1", BEGINNING, false), "c"), (Some(true), false));
    assert_eq!(init(running("1", BEGINNING, false), "sidecar"), (Some(true), true));
    assert_eq!(init(ended(0), "sidecar"), (Some(false), false));
}
