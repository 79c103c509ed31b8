//! What the runtime has in, statuses out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};
use serde_json::{Value, json};

use super::{containers, ended, pod, read, running, waiting};
use crate::container::ContainerResources;
use crate::restart_policy::RestartOfAll;
use crate::status_manager::conditions::Sandbox;
use crate::status_manager::phase::Stage;
use crate::status_manager::statuses::{
    ObservedContainer, ObservedState, Role, StartFailure, container_statuses,
};
use crate::status_manager::{Eviction, Observed, generate};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

pub(super) fn seen(name: &str, attempt: i32, state: ObservedState) -> ObservedContainer {
    ObservedContainer {
        name: name.to_owned(),
        id: format!("containerd://{name}{attempt}"),
        state,
        image: "i".to_owned(),
        image_ref: "i@sha256:1".to_owned(),
        restart_count: attempt,
        created_at: at(i64::from(attempt)),
        resources: None,
        user: None,
    }
}

pub(super) fn runs() -> ObservedState {
    ObservedState::Running { started_at: at(1) }
}

pub(super) fn exited(exit_code: i32) -> ObservedState {
    ObservedState::Exited {
        started_at: at(1),
        finished_at: at(2),
        exit_code,
        reason: "Error".to_owned(),
        message: "m".to_owned(),
    }
}

/// The status of the only container `a`, as JSON.
fn of_a(pod: &Pod, old: &[ContainerStatus], observed: &[ObservedContainer], failure: Option<&str>) -> Value {
    let failure = failure.map(|reason| {
        ("a".to_owned(), StartFailure { reason: reason.to_owned(), message: "why".to_owned() })
    });
    let failures: BTreeMap<_, _> = failure.into_iter().collect();
    let statuses = container_statuses(pod, Role::Ordinary, old, observed, &failures, RestartOfAll::NotAsked);
    assert_eq!(statuses.len(), 1);
    serde_json::to_value(&statuses[0]).unwrap()
}

fn plain(policy: &str) -> Pod {
    pod(json!({ "restartPolicy": policy, "containers": containers(&["a"]) }))
}

#[test]
fn a_container_that_is_not_there_yet_waits_for_its_making_or_for_init_containers() {
    assert_eq!(
        of_a(&plain("Always"), &[], &[], None)["state"],
        json!({ "waiting": { "reason": "ContainerCreating" } })
    );
    let with_init = pod(json!({ "initContainers": containers(&["i"]), "containers": containers(&["a"]) }));
    assert_eq!(
        of_a(&with_init, &[], &[], None)["state"],
        json!({ "waiting": { "reason": "PodInitializing" } })
    );
}

#[test]
fn a_container_is_as_the_runtime_says_and_its_last_state_is_the_attempt_before() {
    let status = of_a(&plain("Always"), &[], &[seen("a", 0, exited(3)), seen("a", 1, runs())], None);
    assert_eq!(status["state"], json!({ "running": { "startedAt": "2023-11-14T22:13:21Z" } }));
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 3);
    assert_eq!(status["lastState"]["terminated"]["containerID"], "containerd://a0");
    assert_eq!((&status["restartCount"], &status["containerID"]), (&json!(1), &json!("containerd://a1")));
    assert_eq!(status["imageID"], "i@sha256:1");
    let created = of_a(&plain("Always"), &[], &[seen("a", 0, ObservedState::Created)], None);
    assert_eq!(created["state"], json!({ "waiting": {} }));
}

#[test]
fn what_the_runtime_forgot_is_not_forgotten() {
    let pod = plain("Always");
    let mut ran = running("a");
    ran.restart_count = 2;
    let status = of_a(&pod, &[ran.clone()], &[], None);
    assert_eq!(status["state"], json!({ "waiting": { "reason": "ContainerCreating" } }));
    assert_eq!(status["lastState"]["terminated"]["reason"], "ContainerStatusUnknown");
    assert_eq!(
        (&status["lastState"]["terminated"]["exitCode"], &status["restartCount"]),
        (&json!(137), &json!(3))
    );

    let mut deleted = pod.clone();
    deleted.metadata.deletion_timestamp = Some(read(json!("2024-01-01T00:00:00Z")));
    assert_eq!(of_a(&deleted, &[ran.clone()], &[], None)["restartCount"], 2);

    let finished = of_a(&pod, &[ended("a", 7)], &[], None);
    assert_eq!(finished["state"]["terminated"]["exitCode"], 7);

    let unknown = of_a(&pod, &[ran], &[seen("a", 2, ObservedState::Unknown)], None);
    assert_eq!(unknown["state"]["terminated"]["reason"], "ContainerStatusUnknown");
    assert_eq!(unknown["restartCount"], 3);
    let never_ran = of_a(&pod, &[waiting("a")], &[seen("a", 0, ObservedState::Unknown)], None);
    assert_eq!(never_ran["state"], json!({ "waiting": {} }));
}

#[test]
fn a_count_of_restarts_that_is_as_high_as_can_be_stays_so() {
    let pod = plain("Always");
    let (mut ran, mut failed) = (running("a"), ended("a", 7));
    (ran.restart_count, failed.restart_count) = (i32::MAX, i32::MAX);
    for (old, observed) in [
        (&ran, vec![]),
        (&ran, vec![seen("a", 2, ObservedState::Unknown)]),
        (&failed, vec![seen("a", 2, runs())]),
    ] {
        assert_eq!(
            of_a(&pod, std::slice::from_ref(old), &observed, None)["restartCount"],
            i32::MAX,
            "{observed:?}"
        );
    }
}

#[test]
fn what_was_started_stays_so_when_the_agent_comes_back() {
    let old = ContainerStatus { container_id: Some("containerd://a0".to_owned()), ..running("a") };
    assert_eq!(of_a(&plain("Always"), &[old], &[seen("a", 0, runs())], None)["started"], true);
}

#[test]
fn a_container_that_could_not_be_started_waits_for_the_reason() {
    let waits = json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "why" } });
    let failure = Some("CrashLoopBackOff");
    assert_eq!(of_a(&plain("Always"), &[], &[], failure)["state"], waits);
    let crashed = of_a(&plain("Always"), &[], &[seen("a", 0, exited(1))], failure);
    assert_eq!(crashed["state"], waits);
    assert_eq!(crashed["lastState"]["terminated"]["exitCode"], 1);
    for (what, pod, state) in [
        ("it runs", plain("Always"), runs()),
        ("it is not started again", plain("Never"), exited(1)),
        ("it succeeded", plain("OnFailure"), exited(0)),
    ] {
        assert_ne!(of_a(&pod, &[], &[seen("a", 0, state)], failure)["state"], waits, "{what}");
    }
}

#[test]
fn an_init_container_that_was_cleaned_up_has_succeeded_if_others_followed() {
    let pod = pod(json!({ "initContainers": containers(&["j", "i"]), "containers": containers(&["a"]) }));
    let of = |observed: &[ObservedContainer]| {
        let statuses =
            container_statuses(&pod, Role::Init, &[], observed, &BTreeMap::new(), RestartOfAll::NotAsked);
        let names: Vec<_> = statuses.iter().map(|status| status.name.as_str()).collect();
        assert_eq!(names, ["j", "i"], "in the order of the spec");
        serde_json::to_value(&statuses[0].state).unwrap()
    };
    assert_eq!(of(&[seen("a", 0, runs())])["terminated"]["reason"], "Completed");
    assert_eq!(of(&[])["waiting"]["reason"], "PodInitializing");
}

/// A pod's status where its only container is so.
fn whole(
    pod: &Pod,
    old: &PodStatus,
    observed: &[ObservedContainer],
    addresses: (&[&str], &[&str]),
) -> PodStatus {
    ending(pod, old, observed, addresses, (Stage::Running, None))
}

/// Likewise, where the pod may be about to end.
fn ending(
    pod: &Pod,
    old: &PodStatus,
    observed: &[ObservedContainer],
    addresses: (&[&str], &[&str]),
    (stage, eviction): (Stage, Option<Eviction>),
) -> PodStatus {
    let owned = |list: &[&str]| list.iter().map(|ip| (*ip).to_owned()).collect::<Vec<_>>();
    let (pod_ips, host_ips) = (owned(addresses.0), owned(addresses.1));
    generate(
        &Observed {
            pod,
            old,
            containers: observed,
            failures: &BTreeMap::new(),
            sandbox: Sandbox::Ready,
            initialized: true,
            stage,
            restart_of_all: RestartOfAll::NotAsked,
            pod_ips: &pod_ips,
            host_ips: &host_ips,
            qos_class: "BestEffort",
            eviction,
            given: ContainerResources::default(),
            resize: &[],
        },
        &|_, status| status.ready = status.state.as_ref().is_some_and(|state| state.running.is_some()),
    )
}

#[test]
fn a_status_has_all_the_nodes_conditions_and_keeps_those_of_others() {
    let mut pod = plain("Always");
    pod.status = Some(read(json!({ "phase": "Pending", "conditions": [
        { "type": "Mine", "status": "Unknown" }, { "type": "Ready", "status": "False" }] })));
    let old: PodStatus =
        read(json!({ "conditions": [{ "type": "DisruptionTarget", "status": "True", "reason": "r" }] }));
    let status = whole(&pod, &old, &[seen("a", 0, runs())], (&["10.0.0.1", "fd00::1"], &["1.1.1.1"]));
    let told: Vec<_> = status
        .conditions
        .iter()
        .flatten()
        .map(|condition| (condition.type_.as_str(), condition.status.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("Mine", "Unknown"),
            ("DisruptionTarget", "True"),
            ("PodReadyToStartContainers", "True"),
            ("Initialized", "True"),
            ("Ready", "True"),
            ("ContainersReady", "True"),
            ("PodScheduled", "True"),
        ]
    );
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let ips: Vec<_> = status.pod_ips.unwrap().into_iter().map(|ip| ip.ip).collect();
    assert_eq!(
        (status.pod_ip.as_deref(), ips),
        (Some("10.0.0.1"), vec!["10.0.0.1".to_owned(), "fd00::1".to_owned()])
    );
    assert_eq!((status.host_ip.as_deref(), status.host_ips.unwrap().len()), (Some("1.1.1.1"), 1));
}

#[test]
fn a_pod_on_the_hosts_network_has_the_hosts_addresses() {
    let mut pod = plain("Always");
    pod.spec.as_mut().unwrap().host_network = Some(true);
    let ips = |pod_ips: &[&str], host_ips: &[&str]| -> Vec<String> {
        let status = whole(&pod, &PodStatus::default(), &[], (pod_ips, host_ips));
        status.pod_ips.into_iter().flatten().map(|ip| ip.ip).collect()
    };
    assert_eq!(ips(&[], &["1.1.1.1"]), ["1.1.1.1"]);
    assert_eq!(ips(&["1.1.1.1"], &["1.1.1.1", "fd00::2"]), ["1.1.1.1", "fd00::2"]);
    assert_eq!(ips(&[], &[]), [""; 0]);
}

#[test]
fn what_ended_stays_ended_with_its_reason() {
    let mut pod = plain("Always");
    let evicted: PodStatus = read(json!({ "phase": "Failed", "reason": "Evicted", "message": "m" }));
    let status = whole(&pod, &evicted, &[seen("a", 0, runs())], (&[], &[]));
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("Evicted")));
    pod.status = Some(read(json!({ "phase": "Succeeded" })));
    let status = whole(&pod, &evicted, &[seen("a", 0, runs())], (&[], &[]));
    assert_eq!(status.phase.as_deref(), Some("Succeeded"), "the API server refuses anything else");
}

#[test]
fn a_pod_that_the_node_ends_has_failed_however_its_containers_end() {
    let eviction = Eviction { reason: "DeadlineExceeded", message: "too long" };
    let failed = json!({ "phase": "Failed", "reason": "DeadlineExceeded", "message": "too long" });
    let running = json!({ "phase": "Running" });
    let succeeded = json!({ "phase": "Succeeded" });
    let lost = json!({ "phase": "Failed", "reason": "NodeLost", "message": "m" });
    for (stage, state, known, on_server, expected) in [
        (Stage::Running, runs(), &running, &running, &failed),
        (Stage::Ended, exited(0), &failed, &running, &failed),
        (Stage::Ended, exited(1), &failed, &running, &failed),
        (Stage::Ended, exited(0), &running, &running, &failed),
        // It is told already.
        (Stage::Ended, exited(0), &failed, &failed, &failed),
        // It had ended before.
        (Stage::Ended, exited(0), &succeeded, &succeeded, &succeeded),
        (Stage::Ended, exited(0), &lost, &lost, &lost),
    ] {
        let mut pod = plain("Never");
        pod.status = Some(read(on_server.clone()));
        let old = read(known.clone());
        let status = ending(&pod, &old, &[seen("a", 0, state)], (&[], &[]), (stage, Some(eviction)));
        let told = serde_json::to_value(status).unwrap();
        for member in ["phase", "reason", "message"] {
            assert_eq!(told.get(member), expected.get(member), "{stage:?} {known} {on_server}");
        }
    }
}

/// What a pod's status tells of its resources as a whole, and of what it was allocated.
fn resources_of(pod: &Pod, old: Value, given: ContainerResources, resize: &[&str]) -> [Value; 2] {
    let conditions: Vec<PodCondition> = resize
        .iter()
        .map(|kind| PodCondition { type_: (*kind).to_owned(), ..PodCondition::default() })
        .collect();
    let status = generate(
        &Observed {
            pod,
            old: &read(old),
            containers: &[],
            failures: &BTreeMap::new(),
            sandbox: Sandbox::Ready,
            initialized: true,
            stage: Stage::Running,
            restart_of_all: RestartOfAll::NotAsked,
            pod_ips: &[],
            host_ips: &[],
            qos_class: "Burstable",
            eviction: None,
            given,
            resize: &conditions,
        },
        &|_, _| {},
    );
    [json!(status.resources), json!(status.allocated_resources)]
}

#[test]
fn a_pod_tells_what_it_has_as_a_whole() {
    let sized = |phase: &str, of_pod: Value, of_container: Value| {
        let container = json!({ "name": "a", "resources": of_container });
        let mut pod = pod(json!({ "resources": of_pod, "containers": [container] }));
        pod.status = Some(read(json!({ "phase": phase })));
        pod
    };
    let both = |cpu: &str, memory: &str| json!({ "cpu": cpu, "memory": memory });
    let nothing = ContainerResources::default();
    let given = |request, limit, memory| ContainerResources {
        cpu_request_milli: request,
        cpu_limit_milli: limit,
        memory_request: None,
        memory_limit: memory,
    };
    let none = json!(null);
    let small = json!({ "requests": both("100m", "64Mi") });
    // Before it runs: what it was allocated, from its containers or as a whole.
    for (of_pod, of_container, resources, allocated) in [
        (none.clone(), json!({}), json!({}), none.clone()),
        (none.clone(), small.clone(), json!({ "requests": both("100m", "64Mi") }), both("100m", "64Mi")),
        (
            json!({ "requests": { "cpu": "1" }, "limits": both("2", "1Gi") }),
            small.clone(),
            json!({ "requests": both("1", "64Mi"), "limits": both("2", "1Gi") }),
            both("1", "64Mi"),
        ),
    ] {
        let pod = sized("Pending", of_pod, of_container);
        let told = resources_of(&pod, json!({}), given(Some(5), None, None), &[]);
        assert_eq!(told, [resources, allocated]);
    }
    // As it runs: what its cgroup has.
    let old = json!({ "phase": "Running", "resources": { "requests": both("150m", "32Mi"), "limits": both("3", "2Gi") } });
    for (of_pod, of_container, given, resources) in [
        (none.clone(), json!({}), given(Some(2), None, None), json!({ "limits": both("3", "2Gi") })),
        (
            none.clone(),
            small.clone(),
            given(Some(100), Some(200), Some(128 << 20)),
            json!({ "requests": both("100m", "64Mi"), "limits": both("200m", "128Mi") }),
        ),
        (
            json!({ "requests": both("1", "96Mi"), "limits": both("2", "1Gi") }),
            small.clone(),
            given(Some(500), Some(2000), Some(1 << 30)),
            json!({ "requests": both("500m", "96Mi"), "limits": both("2", "1Gi") }),
        ),
        // What can't be read stays as it was told.
        (
            none.clone(),
            small.clone(),
            nothing,
            json!({ "requests": both("150m", "64Mi"), "limits": both("3", "2Gi") }),
        ),
    ] {
        let pod = sized("Running", of_pod, of_container);
        assert_eq!(resources_of(&pod, old.clone(), given, &[])[0], resources);
    }
    // While it is resized it has the memory that it had.
    let pod = sized("Running", json!({ "requests": both("1", "96Mi") }), json!({}));
    let told = resources_of(&pod, old.clone(), given(Some(150), None, None), &["PodResizeInProgress"]);
    assert_eq!(told[0]["requests"], both("150m", "32Mi"));
    let told = resources_of(&pod, old, given(Some(1000), None, None), &[]);
    assert_eq!(told[0]["requests"], both("1", "96Mi"));
}
