//! Pods are stopped.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::world::{World, app, named, pod, seconds};
use crate::container::SandboxState;
use crate::kuberuntime::actions::KillReason;
use crate::kuberuntime::manager::RunningPod;
use crate::kuberuntime::manager::kill::Kill;
use crate::kuberuntime::sync_result::SyncAction;
use crate::runtime::simulated::Fault;
use crate::runtime::{Code, Operation};

/// How long a kill takes.
async fn timed(kill: impl Future<Output = crate::kuberuntime::sync_result::PodSyncResult>) -> Duration {
    let began = Instant::now();
    let result = kill.await;
    assert_eq!(result.error_text(), None);
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn containers_are_stopped_side_by_side_and_then_the_sandbox() {
    let world = World::new();
    let pod = pod(
        &[("stop-delay", "5s")],
        json!({"terminationGracePeriodSeconds": 30, "containers": [app("a", json!({})), app("b", json!({}))]}),
    );
    world.synced(&pod).await;
    let began = Instant::now();
    let result = world.kill(&pod).await;
    assert_eq!(began.elapsed(), seconds(5));
    let mut targets: Vec<_> = result.steps.iter().map(|step| (step.action, step.target.clone())).collect();
    assert_eq!(targets.pop(), Some((SyncAction::KillPodSandbox, "uid-web".to_owned())));
    assert!(targets.iter().all(|(action, _)| *action == SyncAction::KillContainer) && targets.len() == 2);
    let status = world.status(&pod).await;
    assert_eq!((status.running().count(), status.sandboxes[0].state), (0, SandboxState::NotReady));
    let mut killing = world.said("Killing");
    killing.sort();
    let said = |name: &str| (format!("spec.containers{{{name}}}"), format!("Stopping container {name}"));
    assert_eq!(killing, [said("a"), said("b")]);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_end_by_itself_is_killed_after_its_grace() {
    for (of_pod, deletion, grace_override, took) in [
        (30, None, None, 30),
        (30, Some(5), None, 5),
        (30, Some(5), Some(3), 3),
        // As short as that was asked for; none at all is not given.
        (30, Some(1), None, 1),
        (30, Some(0), None, 2),
        (30, None, Some(0), 2),
    ] {
        let world = World::new();
        let mut pod = pod(
            &[("stop-delay", "never")],
            json!({"terminationGracePeriodSeconds": of_pod, "containers": [app("a", json!({}))]}),
        );
        world.synced(&pod).await;
        pod.metadata.deletion_grace_period_seconds = deletion;
        let running = RunningPod::from(&world.status(&pod).await);
        let kill = world.kuberuntime.kill_pod(&pod, &running, grace_override);
        assert_eq!(timed(kill).await, seconds(took), "{of_pod} {deletion:?} {grace_override:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sidecars_end_after_what_they_serve_within_the_pods_grace() {
    let world = World::new();
    let side = || json!({"restartPolicy": "Always"});
    let pod = pod(
        &[("stop-delay.a", "4s"), ("stop-delay.second", "3s"), ("stop-delay.first", "1s")],
        json!({
            "terminationGracePeriodSeconds": 30,
            "initContainers": [app("first", side()), app("second", side())],
            "containers": [app("a", json!({}))],
        }),
    );
    for _ in 0..3 {
        world.synced(&pod).await;
    }
    assert_eq!(world.status(&pod).await.running().count(), 3);
    assert_eq!(timed(world.kill(&pod)).await, seconds(8));
    let status = world.status(&pod).await;
    let end = |name: &str| status.container(name).unwrap().finished_at.unwrap();
    assert!(end("a") < end("second") && end("second") < end("first"));
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_waits_no_longer_than_its_grace() {
    let world = World::new();
    let pod = pod(
        &[("stop-delay", "never")],
        json!({
            "terminationGracePeriodSeconds": 10,
            "initContainers": [app("side", json!({"restartPolicy": "Always"}))],
            "containers": [app("a", json!({}))],
        }),
    );
    for _ in 0..2 {
        world.synced(&pod).await;
    }
    // Both are out of time at once; the sidecar has its least grace then.
    assert_eq!(timed(world.kill(&pod)).await, seconds(12));
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_which_only_the_runtime_knows_is_stopped_without_its_hooks() {
    let world = World::new();
    let hook = json!({"lifecycle": {"preStop": {"exec": {"command": ["bye"]}}}});
    let pod = pod(
        &[("stop-delay", "never")],
        json!({"terminationGracePeriodSeconds": 9, "containers": [app("a", hook), app("b", json!({}))]}),
    );
    world.synced(&pod).await;
    let listed = world.listed(&pod).await.unwrap();
    // One of them goes in between.
    let gone = &listed.containers.iter().find(|container| container.name == "b").unwrap().id;
    world.kuberuntime.remove_container(&gone.id).await.unwrap();
    let (known, running) = (listed.to_api_pod(), RunningPod::from(&listed));
    let began = Instant::now();
    let killed = world.kuberuntime.kill_pod(&known, &running, Some(1)).await;
    assert_eq!((killed.is_ok(), began.elapsed()), (true, seconds(1)), "{killed:?}");
    assert_eq!(world.count(Operation::ExecSync), 0);
    let mut said = world.said("Killing");
    said.sort();
    let stopping = |name: &str| (format!("spec.containers{{{name}}}"), format!("Stopping container {name}"));
    assert_eq!(said, ["a", "b"].map(stopping));
    assert_eq!(world.status(&pod).await.sandboxes[0].state, SandboxState::NotReady);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_over_is_stopped_as_its_annotations_say_and_nobody_is_told() {
    let world = World::new();
    let hook = json!({"lifecycle": {"preStop": {"exec": {"command": ["bye"]}}}});
    let pod = pod(
        &[("stop-delay", "never"), ("exec-delay", "4s")],
        json!({"terminationGracePeriodSeconds": 9, "containers": [app("a", hook)]}),
    );
    world.synced(&pod).await;
    let id = world.container(&pod, "a").await.id;
    let kill = async || {
        let reason = KillReason::Unknown;
        let (pod, grace_override, turns) = (None, None, None);
        let kill = Kill { pod, id: &id, name: "a", message: "", reason, grace_override, turns };
        world.kuberuntime.killer.kill(kill).await
    };
    let began = Instant::now();
    assert_eq!((kill().await, began.elapsed()), (Ok(()), seconds(9)));
    assert_eq!(world.count(Operation::ExecSync), 1);
    assert_eq!(world.said("Killing"), []);
    world.kuberuntime.remove_container(&id.id).await.unwrap();
    assert_eq!(kill().await, Ok(()), "what is gone is stopped");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_stopped_is_told_and_what_is_gone_is_fine() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({})), app("b", json!({}))]}));
    world.synced(&pod).await;
    let running = RunningPod::from(&world.status(&pod).await);
    let fails = |code| Fault::Fails { code, message: "no".into() };
    world.simulated.inject_for("a", Operation::StopContainer, 1, fails(Code::Unknown));
    world.simulated.inject_for("b", Operation::StopContainer, 1, fails(Code::NotFound));
    world.simulated.inject(Operation::StopPodSandbox, 1, fails(Code::Unavailable));
    let result = world.kuberuntime.kill_pod(&pod, &running, None).await;
    let failed: Vec<_> = result
        .failures()
        .map(|step| (step.target.as_str(), step.error.as_ref().unwrap().reason.as_str()))
        .collect();
    assert_eq!(failed, [("a", "KillContainerError"), ("uid-web", "KillPodSandboxError")]);
    // It is repeated until all is well.
    assert!(world.kill(&pod).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn one_containers_hung_stop_holds_up_neither_its_siblings_nor_other_pods() {
    let world = World::new();
    let hung = named("hung", &[], json!({"containers": [app("stuck", json!({})), app("b", json!({}))]}));
    let other = named("other", &[], json!({"containers": [app("a", json!({}))]}));
    for pod in [&hung, &other] {
        world.synced(pod).await;
    }
    world.simulated.inject_for("stuck", Operation::StopContainer, 1, Fault::Hangs);
    let began = Instant::now();
    let quick = async {
        world.kill(&other).await;
        world.synced(&other).await;
        began.elapsed()
    };
    let (stuck, quick) = tokio::join!(world.kill(&hung), quick);
    assert!(!stuck.is_ok() && quick < seconds(1), "{quick:?}");
    let status = world.status(&hung).await;
    assert!(status.container("b").unwrap().finished_at.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_not_in_the_spec_is_refused() {
    let world = World::new();
    let mut pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    world.synced(&pod).await;
    pod.spec.as_mut().unwrap().containers[0].name = "other".into();
    let result = world.kill(&pod).await;
    let failed = result.failures().next().unwrap();
    let message = &failed.error.as_ref().unwrap().message;
    assert!(message.starts_with("failed to get containerSpec \"a\" (id=\"test://"), "{message}");
}
