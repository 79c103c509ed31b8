use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::container::ContainerState;
use crate::kuberuntime::actions::testing::{base, id, made_from, plain_init, spec};
use crate::kuberuntime::actions::{PostStart, ProbeResult, SpecIndex};

fn start(start: &[usize]) -> Expected {
    Expected { start: start.to_vec(), ..Expected::default() }
}

fn deleted(scene: Scene) -> Scene {
    scene.but(|scene| scene.pod.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH)))
}

#[test]
fn containers_that_ended_start_as_the_policy_says() {
    // The first ended well, the second did not, the third runs.
    let ended = || base().exited(0, 0).exited(1, 111);
    check([
        ("all is well", base(), Expected::default()),
        ("no policy is Always", ended(), start(&[0, 1])),
        ("Always", ended().policy("Always"), start(&[0, 1])),
        ("OnFailure", ended().policy("OnFailure"), start(&[1])),
        ("Never", ended().policy("Never"), Expected::default()),
        (
            "own policies Always",
            ended().policy("Never").own_policy(0, "Always").own_policy(1, "Always"),
            start(&[0, 1]),
        ),
        (
            "own policies OnFailure",
            ended().policy("Never").own_policy(0, "OnFailure").own_policy(1, "OnFailure"),
            start(&[1]),
        ),
        (
            "own policies Never",
            ended().policy("Always").own_policy(0, "Never").own_policy(1, "Never"),
            Expected::default(),
        ),
        (
            "one that was made and not started starts under any policy",
            base().policy("Never").state(1, ContainerState::Created),
            start(&[1]),
        ),
        (
            "OnFailure, with one that was not started",
            base().policy("OnFailure").exited(0, 0).state(1, ContainerState::Created),
            start(&[1]),
        ),
        ("one that never was starts under any policy", base().policy("Never").only(1..), start(&[0])),
        (
            "only the newest of a name counts",
            base().policy("Never").but(|scene| {
                let mut old = made_from(&spec("foo1", "busybox"), "old", ContainerState::Exited);
                old.exit_code = 1;
                scene.status.containers.push(old);
            }),
            Expected::default(),
        ),
    ]);
}

#[test]
fn a_pod_is_killed_when_nothing_is_kept_or_started() {
    let over = || Expected { kill_pod: true, ..Expected::default() };
    let all_ended = || base().policy("Never").exited(0, 0).exited(1, 0).exited(2, 0);
    check([
        ("Never, all ended", all_ended(), over()),
        (
            "an ephemeral container does not keep it",
            all_ended().with_ephemeral("debug").but(|scene| {
                let debugger = made_from(&spec("debug", "busybox"), "debugid", ContainerState::Running);
                scene.status.containers.push(debugger);
            }),
            over(),
        ),
        ("one runs", all_ended().state(2, ContainerState::Running), Expected::default()),
        (
            "Never, and the last one fails its liveness probe",
            all_ended().state(2, ContainerState::Running).liveness("id3", ProbeResult::Failure),
            Expected { kill: ids(&["id3"]), ..over() },
        ),
    ]);
}

#[test]
fn nothing_starts_in_a_pod_that_is_being_deleted() {
    check([
        ("it runs", deleted(base()), Expected::default()),
        ("one ended", deleted(base().policy("Always").exited(0, 1)), Expected::default()),
        (
            "none was made",
            deleted(base().no_containers()),
            Expected { kill_pod: true, ..Expected::default() },
        ),
    ]);
}

#[test]
fn running_containers_are_killed_for_a_reason() {
    let failing = |scene: Scene| scene.liveness("id2", ProbeResult::Failure);
    let restarted = || Expected { kill: ids(&["id2"]), ..start(&[1]) };
    check([
        ("not live", failing(base().policy("Always")), restarted()),
        ("not started up", base().policy("Always").startup("id2", ProbeResult::Failure), restarted()),
        (
            "another definition",
            base().but(|scene| scene.status.containers[1].hash = 432_423_432),
            restarted(),
        ),
        (
            "another definition, even under Never",
            base().policy("Never").but(|scene| scene.status.containers[1].hash = 432_423_432),
            restarted(),
        ),
        ("not live, OnFailure", failing(base().policy("OnFailure")), restarted()),
        (
            "not live, Never",
            failing(base().policy("Never")),
            Expected { kill: ids(&["id2"]), ..Expected::default() },
        ),
        ("not live, own policy Always", failing(base().policy("Never").own_policy(1, "Always")), restarted()),
        (
            "not live, own policy Never",
            failing(base().policy("Always").own_policy(1, "Never")),
            Expected { kill: ids(&["id2"]), ..Expected::default() },
        ),
        ("lost, under Never", base().policy("Never").state(1, ContainerState::Unknown), restarted()),
        ("not known to be live", base().liveness("id2", ProbeResult::Unknown), Expected::default()),
        ("an older one was not live", base().liveness("id2-old", ProbeResult::Failure), Expected::default()),
        ("its hook runs", base().post_start("id2", PostStart::Running), Expected::default()),
        (
            "its hook failed: policy decides when it has ended",
            base().policy("Always").post_start("id2", PostStart::Failed),
            Expected { kill: ids(&["id2"]), ..Expected::default() },
        ),
        (
            "its hook failed, and nothing else is left",
            base().policy("Never").exited(0, 0).exited(2, 0).post_start("id2", PostStart::Failed),
            Expected { kill: ids(&["id2"]), ..Expected::default() },
        ),
    ]);
}

#[test]
fn a_kill_says_why_and_whether_a_restart_follows() {
    let always = || base().policy("Always");
    for (scene, message, reason) in [
        (
            always().liveness("id2", ProbeResult::Failure),
            "Container foo2 failed liveness probe, will be restarted",
            KillReason::LivenessProbe,
        ),
        (
            always().policy("Never").liveness("id2", ProbeResult::Failure),
            "Container foo2 failed liveness probe",
            KillReason::LivenessProbe,
        ),
        (
            always().startup("id2", ProbeResult::Failure),
            "Container foo2 failed startup probe, will be restarted",
            KillReason::StartupProbe,
        ),
        (
            always().liveness("id2", ProbeResult::Failure).but(|scene| scene.status.containers[1].hash = 1),
            "Container foo2 definition changed, will be restarted",
            KillReason::DefinitionChanged,
        ),
        (
            always().state(1, ContainerState::Unknown),
            "Container is in \"unknown\" state, try killing it before restart",
            KillReason::Unknown,
        ),
        (
            always().post_start("id2", PostStart::Failed),
            "FailedPostStartHook",
            KillReason::FailedPostStartHook,
        ),
    ] {
        assert_eq!(killed(&scene), (message.to_owned(), reason));
    }
}

#[test]
fn ephemeral_containers_start_once_and_wait_for_nobody() {
    let debugged = |state| {
        base().with_ephemeral("debug").but(|scene| {
            scene.status.containers.push(made_from(&spec("debug", "busybox"), "debugid", state));
        })
    };
    let first = || Expected { ephemeral: vec![0], ..Expected::default() };
    check([
        ("it is new", base().with_ephemeral("debug"), first()),
        ("it runs", debugged(ContainerState::Running), Expected::default()),
        ("it ended", debugged(ContainerState::Exited).policy("Always"), Expected::default()),
        ("it is lost", debugged(ContainerState::Unknown), Expected::default()),
        (
            "there is a second one",
            debugged(ContainerState::Running).with_ephemeral("debug2"),
            Expected { ephemeral: vec![1], ..Expected::default() },
        ),
        (
            "during initialization",
            base().with_init(plain_init()).with_ephemeral("debug").state(2, ContainerState::Running),
            first(),
        ),
    ]);
}

#[test]
fn when_all_containers_start_over_those_that_asked_for_it_go_last() {
    let rule = |code| {
        let rule = serde_json::json!([{
            "action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [code]}
        }]);
        Some(serde_json::from_value(rule).unwrap())
    };
    let scene = base().with_init(plain_init()).regular(ContainerState::Running).exited(3, 42).exited(0, 7);
    let scene = scene.but(|scene| {
        scene.observed.restart_all_containers = true;
        scene.spec().containers[0].restart_policy_rules = rule(42);
        scene.spec().init_containers.as_mut().unwrap()[0].restart_policy_rules = rule(7);
        let mut past = made_from(&spec("foo2", "busybox"), "id2-past", ContainerState::Exited);
        past.exit_code = 1;
        scene.status.containers.push(past);
    });
    let actions = scene.actions();
    let reset = actions.containers_to_reset.iter().map(|reset| (reset.id.clone(), reset.spec, reset.kill));
    assert_eq!(
        reset.collect::<Vec<_>>(),
        [
            (id("id2"), SpecIndex::Regular(1), true),
            (id("id2-past"), SpecIndex::Regular(1), false),
            (id("id3"), SpecIndex::Regular(2), true),
            (id("initid2"), SpecIndex::Init(1), false),
            (id("initid3"), SpecIndex::Init(2), false),
            (id("id1"), SpecIndex::Regular(0), false),
            (id("initid1"), SpecIndex::Init(0), false),
        ]
    );
    assert!(actions.containers_to_start.is_empty() && actions.containers_to_kill.is_empty());
    assert!(!actions.kill_pod && !actions.create_sandbox);
}
