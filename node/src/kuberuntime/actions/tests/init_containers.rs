use super::*;
use crate::container::ContainerState;
use crate::kuberuntime::actions::testing::{base, plain_init, sidecars};
use crate::kuberuntime::actions::{PostStart, ProbeResult};

fn init(init: &[usize]) -> Expected {
    Expected { init: init.to_vec(), ..Expected::default() }
}

fn all() -> Expected {
    Expected { start: vec![0, 1, 2], ..Expected::default() }
}

fn over() -> Expected {
    Expected { kill_pod: true, ..Expected::default() }
}

fn plain() -> Scene {
    base().with_init(plain_init())
}

/// Three sidecars that run, live and started.
fn beside() -> Scene {
    let well = ProbeResult::Success;
    let scene = base().with_init(sidecars()).policy("Always");
    scene
        .liveness("initid2", well)
        .liveness("initid3", well)
        .startup("initid2", well)
        .startup("initid3", well)
}

#[test]
fn ordinary_init_containers_run_one_after_the_other() {
    check([
        ("none was started", plain().no_containers(), init(&[0])),
        ("the first is done", plain().only(..1), init(&[1])),
        ("the second is done", plain().only(..2), init(&[2])),
        ("all are done", plain(), all()),
        ("the last runs", plain().state(2, ContainerState::Running), Expected::default()),
        (
            "the last runs, those before it were removed",
            plain().state(2, ContainerState::Running).only(2..),
            Expected::default(),
        ),
        ("the last is done, those before it were removed", plain().only(2..), all()),
        ("one was made and not started", plain().state(2, ContainerState::Created), init(&[2])),
        (
            "all were removed, but a regular container runs",
            plain().regular(ContainerState::Running).only(3..),
            Expected::default(),
        ),
        (
            "all were removed, and the regular ones that ended may be of another sandbox",
            plain().regular(ContainerState::Exited).only(3..),
            init(&[0]),
        ),
    ]);
}

#[test]
fn an_init_container_that_failed_is_started_again_or_ends_the_pod() {
    let failed = || plain().exited(2, 137);
    let lost = || plain().state(2, ContainerState::Unknown);
    let lost_and_again = || Expected { kill: ids(&["initid3"]), ..init(&[2]) };
    let own = |scene: Scene, policy: &str| {
        let policy = policy.to_owned();
        scene.but(|scene| scene.spec().init_containers.as_mut().unwrap()[2].restart_policy = Some(policy))
    };
    check([
        ("Always", failed().policy("Always"), init(&[2])),
        ("OnFailure", failed().policy("OnFailure"), init(&[2])),
        ("Never", failed().policy("Never"), over()),
        ("Never, own policy OnFailure", own(failed().policy("Never"), "OnFailure"), init(&[2])),
        ("Always, own policy Never", own(failed().policy("Always"), "Never"), over()),
        (
            "killed for want of memory, though it ended with 0",
            plain().policy("Never").but(|scene| scene.status.containers[2].reason = "OOMKilled".into()),
            over(),
        ),
        ("lost, Always", lost().policy("Always"), lost_and_again()),
        ("lost, OnFailure", lost().policy("OnFailure"), lost_and_again()),
        ("lost, Never", lost().policy("Never"), over()),
        (
            "an earlier one that failed before a later one ran does not matter",
            plain().policy("Never").exited(0, 1),
            all(),
        ),
    ]);
}

#[test]
fn sidecars_start_in_order_and_each_waits_for_the_one_before() {
    let waiting = || beside().only(..2);
    check([
        ("none was started", beside().no_containers(), init(&[0])),
        ("the first runs", beside().only(..1), init(&[1])),
        ("all run", beside(), all()),
        ("the second started up", waiting(), init(&[2])),
        (
            "the second was not probed for startup yet",
            waiting().but(|scene| scene.observed.startup.clear()),
            Expected::default(),
        ),
        (
            "the second is not known to have started up",
            waiting().startup("initid2", ProbeResult::Unknown),
            Expected::default(),
        ),
        (
            "liveness does not hold up the next",
            waiting().but(|scene| scene.observed.liveness.clear()),
            init(&[2]),
        ),
        ("nor does it unknown", waiting().liveness("initid2", ProbeResult::Unknown), init(&[2])),
        (
            "the second's hook after the start runs",
            waiting().post_start("initid2", PostStart::Running),
            Expected::default(),
        ),
        (
            "the second's hook failed",
            waiting().post_start("initid2", PostStart::Failed),
            Expected { kill: ids(&["initid2"]), ..Expected::default() },
        ),
        ("one was made and not started", beside().state(2, ContainerState::Created), init(&[2])),
    ]);
}

#[test]
fn sidecars_are_kept_running_whatever_the_policy() {
    let never = || beside().policy("Never");
    let killed = |expected: Expected| Expected { kill: ids(&["initid3"]), ..expected };
    check([
        ("the first ended", beside().exited(0, 0), Expected { init: vec![0], ..all() }),
        ("the first and the last ended", beside().exited(0, 0).exited(2, 0), init(&[0, 2])),
        ("the last failed under Never", never().exited(2, 137), init(&[2])),
        ("the last is lost under Never", never().state(2, ContainerState::Unknown), killed(init(&[2]))),
        (
            "the last failed while the regular ones run",
            never().exited(2, 137).regular(ContainerState::Running),
            init(&[2]),
        ),
        (
            "not live",
            beside().liveness("initid3", ProbeResult::Failure),
            killed(Expected { init: vec![2], ..all() }),
        ),
        ("not started up", beside().startup("initid3", ProbeResult::Failure), killed(init(&[2]))),
        (
            "another definition",
            beside().but(|scene| {
                scene.spec().init_containers.as_mut().unwrap()[2].image = Some("foo-image".into());
            }),
            killed(Expected { init: vec![2], ..all() }),
        ),
        ("the first two were removed", beside().only(2..), Expected { init: vec![0, 1], ..all() }),
    ]);
}

#[test]
fn sidecars_do_not_keep_a_pod_alive() {
    let done = || beside().policy("Never").regular(ContainerState::Exited);
    check([
        ("all regular containers are done", done(), over()),
        ("and a sidecar failed", done().exited(0, 1), over()),
        ("one regular container goes on", done().state(4, ContainerState::Running), Expected::default()),
    ]);
}

#[test]
fn a_kill_of_an_init_container_says_why() {
    for (scene, message, reason) in [
        (
            beside().liveness("initid3", ProbeResult::Failure),
            "Init container sidecar3 failed liveness probe",
            KillReason::LivenessProbe,
        ),
        (
            beside().startup("initid3", ProbeResult::Failure),
            "Init container sidecar3 failed startup probe",
            KillReason::StartupProbe,
        ),
        (
            beside().but(|scene| scene.status.containers[0].hash = 1),
            "Init container sidecar1 definition changed",
            KillReason::DefinitionChanged,
        ),
        (
            plain().state(1, ContainerState::Unknown).only(..2),
            "Init container is in \"unknown\" state, try killing it before restart",
            KillReason::Unknown,
        ),
    ] {
        assert_eq!(killed(&scene), (message.to_owned(), reason));
    }
}
