use serde_json::{Value, json};

use super::{BEGINNING, at, container_of, container_status, id, pod, running, status_with};
use crate::kuberuntime::actions::ProbeResult::{self, Failure, Success, Unknown};
use crate::probes::ProbeKind::{self, Liveness, Readiness, Startup};
use crate::probes::worker::{Change, Course, Next, Subject};

fn subject_of(kind: ProbeKind, probe: &Value, pod_members: &Value) -> Subject {
    let field = format!("{}Probe", kind.as_str().to_lowercase());
    let mut pod = (*pod(json!({ field: probe }))).clone();
    if let Some(policy) = pod_members["restartPolicy"].as_str() {
        pod.spec.as_mut().unwrap().restart_policy = Some(policy.to_owned());
    }
    if pod_members["deleted"] == true {
        pod.metadata.deletion_timestamp = Some(super::read(json!(at(BEGINNING).to_string())));
    }
    let container = container_of(&pod).clone();
    Subject {
        kind,
        probe: kind.of(&container).unwrap().clone(),
        container,
        pod: pod.into(),
        before_agent: at(BEGINNING - 10),
    }
}

fn subject(kind: ProbeKind) -> Subject {
    subject_of(kind, &json!({ "exec": {} }), &json!({}))
}

fn set(container: &str, result: ProbeResult) -> Change {
    Change::Set(id(container), result)
}

#[test]
fn a_container_that_is_not_there_is_waited_for() {
    let subject = subject(Readiness);
    let mut course = Course::default();
    let nothing = (vec![], Next::Wait);
    assert_eq!(course.observe(&subject, None, at(BEGINNING)), nothing);
    let mut status = status_with(container_status("1", json!({ "containerID": null })));
    assert_eq!(course.observe(&subject, Some(&status), at(BEGINNING)), nothing);
    status.container_statuses = None;
    assert_eq!(course.observe(&subject, Some(&status), at(BEGINNING)), nothing);
}

#[test]
fn a_pod_that_has_ended_ends_its_probes() {
    for phase in ["Failed", "Succeeded"] {
        let mut status = status_with(running("1", BEGINNING, true));
        status.phase = Some(phase.into());
        let (changes, next) = Course::default().observe(&subject(Readiness), Some(&status), at(BEGINNING));
        assert_eq!((changes, next), (vec![], Next::End));
    }
}

#[test]
fn before_the_first_probe_a_container_lives_is_not_ready_and_may_have_started() {
    for (kind, started, result, next) in [
        (Liveness, true, Success, Next::Probe(id("1"))),
        (Readiness, true, Failure, Next::Probe(id("1"))),
        (Startup, false, Unknown, Next::Probe(id("1"))),
        // The startup probe goes before the others, and has no more to say after.
        (Liveness, false, Success, Next::Wait),
        (Readiness, false, Failure, Next::Wait),
        (Startup, true, Unknown, Next::Wait),
    ] {
        let status = status_with(running("1", BEGINNING, started));
        let found = Course::default().observe(&subject(kind), Some(&status), at(BEGINNING));
        assert_eq!(found, (vec![set("1", result)], next), "{kind:?} {started}");
    }
}

#[test]
fn a_container_from_before_the_agent_keeps_what_it_was() {
    for kind in ProbeKind::ALL {
        let started = kind != Startup;
        let status = status_with(running("1", BEGINNING - 11, started));
        let found = Course::default().observe(&subject(kind), Some(&status), at(BEGINNING));
        assert_eq!(found, (vec![], Next::Probe(id("1"))), "{kind:?}");
    }
}

#[test]
fn a_started_sidecar_from_before_the_agent_has_started() {
    let container = json!({
        "name": "c", "image": "i", "restartPolicy": "Always", "startupProbe": { "exec": {} },
    });
    let pod = super::read::<k8s_openapi::api::core::v1::Pod>(
        json!({ "metadata": { "uid": "u" }, "spec": { "containers": [], "initContainers": [container] } }),
    );
    let container = pod.spec.as_ref().unwrap().init_containers.as_ref().unwrap()[0].clone();
    let subject = Subject {
        kind: Startup,
        probe: container.startup_probe.clone().unwrap(),
        container,
        pod: pod.into(),
        before_agent: at(BEGINNING - 10),
    };
    let mut status = status_with(running("1", BEGINNING - 100, true));
    status.init_container_statuses = status.container_statuses.take();
    let found = Course::default().observe(&subject, Some(&status), at(BEGINNING));
    assert_eq!(found, (vec![set("1", Success)], Next::Wait));
}

#[test]
fn another_container_begins_anew() {
    let subject = subject_of(Liveness, &json!({ "exec": {}, "failureThreshold": 2 }), &json!({}));
    let mut course = Course::default();
    let first = status_with(running("1", BEGINNING, true));
    course.observe(&subject, Some(&first), at(BEGINNING));
    assert_eq!(course.conclude(&subject, Failure), None);
    let second = status_with(running("2", BEGINNING, true));
    let (changes, next) = course.observe(&subject, Some(&second), at(BEGINNING));
    assert_eq!(changes, [Change::Forget(id("1")), set("2", Success)]);
    assert_eq!(next, Next::Probe(id("2")));
    // What the first one answered does not count.
    assert_eq!(course.conclude(&subject, Failure), None);
    assert_eq!(course.conclude(&subject, Failure), Some(Failure));
}

#[test]
fn what_does_not_run_is_not_well_and_is_waited_for_while_it_may_run_again() {
    let ended = |code: i32| container_status("1", json!({ "state": { "terminated": { "exitCode": code } } }));
    let waiting = || container_status("1", json!({ "state": { "waiting": {} } }));
    for (policy, container, next) in [
        ("Always", ended(0), Next::Wait),
        ("OnFailure", ended(1), Next::Wait),
        ("OnFailure", ended(0), Next::End),
        ("Never", ended(1), Next::End),
        ("Never", waiting(), Next::Wait),
    ] {
        let subject = subject_of(Readiness, &json!({ "exec": {} }), &json!({ "restartPolicy": policy }));
        let (changes, found) =
            Course::default().observe(&subject, Some(&status_with(container)), at(BEGINNING));
        assert_eq!((changes.last(), found), (Some(&set("1", Failure)), next), "{policy}");
    }
}

#[test]
fn a_pod_that_is_deleted_is_asked_only_for_readiness() {
    for (kind, started) in [(Liveness, true), (Startup, false), (Readiness, true)] {
        let subject = subject_of(kind, &json!({ "exec": {} }), &json!({ "deleted": true }));
        let status = status_with(running("1", BEGINNING, started));
        let (changes, next) = Course::default().observe(&subject, Some(&status), at(BEGINNING));
        let expected = match kind {
            Readiness => (set("1", Failure), Next::Probe(id("1"))),
            _ => (set("1", Success), Next::End),
        };
        assert_eq!((changes.last().cloned().unwrap(), next), expected, "{kind:?}");
    }
}

#[test]
fn the_initial_delay_counts_from_the_containers_start() {
    let subject = subject_of(Liveness, &json!({ "exec": {}, "initialDelaySeconds": 10 }), &json!({}));
    let status = status_with(running("1", BEGINNING, true));
    for (second, expected) in [(9, Next::Wait), (10, Next::Probe(id("1")))] {
        let (_, next) = Course::default().observe(&subject, Some(&status), at(BEGINNING + second));
        assert_eq!(next, expected, "{second}");
    }
}

#[test]
fn results_count_once_they_are_found_often_enough_in_a_row() {
    let subject = subject_of(
        Readiness,
        &json!({ "exec": {}, "failureThreshold": 3, "successThreshold": 2 }),
        &json!({}),
    );
    let mut course = Course::default();
    for (step, (result, expected)) in [
        (Success, None),
        (Success, Some(Success)),
        (Success, Some(Success)),
        (Failure, None),
        (Failure, None),
        (Success, None),
        (Failure, None),
        (Failure, None),
        (Failure, Some(Failure)),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(course.conclude(&subject, result), expected, "step {step}");
    }
}

#[test]
fn thresholds_that_nobody_filled_in_are_one_success_or_three_failures() {
    let mut course = Course::default();
    let subject = subject(Readiness);
    assert_eq!(course.conclude(&subject, Success), Some(Success));
    let failures = [(); 3].map(|()| course.conclude(&subject, Failure));
    assert_eq!(failures, [None, None, Some(Failure)]);
}

#[test]
fn what_failed_its_liveness_and_what_has_started_is_left_alone_until_there_is_another() {
    for (kind, started, result) in
        [(Liveness, true, Failure), (Startup, false, Success), (Startup, false, Failure)]
    {
        let subject = subject_of(kind, &json!({ "exec": {}, "failureThreshold": 1 }), &json!({}));
        let mut course = Course::default();
        let status = status_with(running("1", BEGINNING, started));
        course.observe(&subject, Some(&status), at(BEGINNING));
        assert_eq!(course.conclude(&subject, result), Some(result));
        assert_eq!(course.observe(&subject, Some(&status), at(BEGINNING)), (vec![], Next::Wait), "{kind:?}");
        let another = status_with(running("2", BEGINNING, started));
        assert_eq!(course.observe(&subject, Some(&another), at(BEGINNING)).1, Next::Probe(id("2")));
    }
}
