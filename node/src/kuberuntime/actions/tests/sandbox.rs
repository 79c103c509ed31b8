use super::*;
use crate::container::{ContainerState, NamespaceMode, SandboxState};
use crate::kuberuntime::actions::testing::{base, plain_init, sandbox, sidecars};

fn anew(attempt: u32) -> Expected {
    Expected { kill_pod: true, create_sandbox: true, attempt, ..Expected::default() }
}

fn over(attempt: u32) -> Expected {
    Expected { kill_pod: true, attempt, ..Expected::default() }
}

fn all_exited(scene: Scene, exit_code: i32) -> Scene {
    scene.exited(0, exit_code).exited(1, exit_code).exited(2, exit_code)
}

#[test]
fn a_pod_without_a_good_sandbox_starts_over() {
    let all = || vec![0, 1, 2];
    let no_sandbox = |scene: Scene| scene.but(|scene| scene.status.sandboxes.clear());
    let host_network = |scene: Scene| scene.but(|scene| scene.spec().host_network = Some(true));
    check([
        (
            "a new pod",
            no_sandbox(base().no_containers()),
            Expected { no_sandbox: true, start: all(), ..anew(0) },
        ),
        ("a dead sandbox", base().policy("Always").dead_sandbox(0), Expected { start: all(), ..anew(1) }),
        (
            "a dead sandbox of the highest number",
            base().policy("Always").dead_sandbox(u32::MAX),
            Expected { start: all(), ..anew(0) },
        ),
        (
            "the newest is dead though an older one is ready",
            base().dead_sandbox(4).but(|scene| scene.status.sandboxes.push(sandbox("older", 3))),
            Expected { start: all(), ..anew(5) },
        ),
        (
            "two ready sandboxes",
            base().but(|scene| scene.status.sandboxes.insert(0, sandbox("newer", 1))),
            Expected { start: all(), ..anew(2) },
        ),
        (
            "one ready before a dead one",
            base().but(|scene| {
                let mut older = sandbox("older", 0);
                older.state = SandboxState::NotReady;
                scene.status.sandboxes[0].attempt = 1;
                scene.status.sandboxes.push(older);
            }),
            Expected { attempt: 1, ..Expected::default() },
        ),
        (
            "no address",
            base().but(|scene| scene.status.sandboxes[0].network = Some(Default::default())),
            Expected { start: all(), ..anew(1) },
        ),
        (
            "no address, but the node's network",
            host_network(base()).but(|scene| {
                scene.status.sandboxes[0].network = Some(Default::default());
                scene.status.sandboxes[0].network_mode = NamespaceMode::Node;
            }),
            Expected::default(),
        ),
        (
            "a runtime that tells nothing of the network",
            base().but(|scene| scene.status.sandboxes[0].network = None),
            Expected::default(),
        ),
        (
            "moved to the node's network: the old sandbox is not for its containers",
            host_network(base()),
            Expected { no_sandbox: true, start: all(), ..anew(1) },
        ),
        (
            "init containers begin again",
            base().with_init(plain_init()).policy("Always").dead_sandbox(0),
            Expected { init: vec![0], ..anew(1) },
        ),
        (
            "sidecars begin again",
            base().with_init(sidecars()).policy("OnFailure").dead_sandbox(0).exited(2, 137),
            Expected { init: vec![0], ..anew(1) },
        ),
        (
            "ephemeral containers do not come back",
            base().with_ephemeral("debug").policy("Always").dead_sandbox(0),
            Expected { start: all(), ..anew(1) },
        ),
    ]);
}

#[test]
fn a_pod_that_has_run_its_course_gets_no_new_sandbox() {
    check([
        ("Never, all ended", all_exited(base().policy("Never").dead_sandbox(1), 0), over(2)),
        ("Never, all failed", all_exited(base().policy("Never").dead_sandbox(1), 1), over(2)),
        ("Never, one still there", base().policy("Never").dead_sandbox(0), over(1)),
        ("OnFailure, all succeeded", all_exited(base().policy("OnFailure").dead_sandbox(1), 0), over(2)),
        (
            "Never, and init containers",
            base().with_init(plain_init()).policy("Never").dead_sandbox(0),
            over(1),
        ),
        (
            "Never, though a sidecar failed",
            base().with_init(sidecars()).policy("Never").dead_sandbox(0).exited(2, 137),
            over(1),
        ),
    ]);
}

#[test]
fn a_pod_that_may_go_on_gets_a_new_sandbox() {
    check([
        (
            "Never, but no container was ever made",
            base().policy("Never").dead_sandbox(2).no_containers(),
            Expected { start: vec![0, 1, 2], ..anew(3) },
        ),
        (
            "Never, but the runtime has forgotten all its sandboxes, so that this counts as its first",
            all_exited(base().policy("Never"), 0).but(|scene| scene.status.sandboxes.clear()),
            Expected { no_sandbox: true, start: vec![0, 1, 2], ..anew(0) },
        ),
        (
            "Never, but no init container was ever made",
            base().with_init(plain_init()).policy("Never").dead_sandbox(0).no_containers(),
            Expected { init: vec![0], ..anew(1) },
        ),
        (
            "OnFailure: one that succeeded stays ended",
            base().policy("OnFailure").dead_sandbox(0).exited(1, 0),
            Expected { start: vec![0, 2], ..anew(1) },
        ),
        (
            "OnFailure of the container itself: it stays ended",
            base().policy("Always").own_policy(1, "OnFailure").dead_sandbox(0).exited(1, 0),
            Expected { start: vec![0, 2], ..anew(1) },
        ),
        (
            "Always of the container itself: it starts again",
            base().policy("OnFailure").own_policy(1, "Always").dead_sandbox(0).exited(1, 0),
            Expected { start: vec![0, 1, 2], ..anew(1) },
        ),
        (
            "OnFailure, initialization failed",
            base().with_init(plain_init()).policy("OnFailure").dead_sandbox(0).exited(2, 137),
            Expected { init: vec![0], ..anew(1) },
        ),
        (
            "a lost container does not show that the pod was initialized",
            base().policy("OnFailure").dead_sandbox(0).state(0, ContainerState::Unknown),
            Expected { start: vec![0, 1, 2], ..anew(1) },
        ),
    ]);
}
