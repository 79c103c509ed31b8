//! The same on a real runtime, where `CONTAINER_RUNTIME_ENDPOINT` names its socket.

use std::fs;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use steersman_api::Uid;
use tokio::time::{Instant, sleep};

use super::world::{World, app, named};
use crate::container::{ContainerState, ContainerStatus, SandboxState};
use crate::cri::{Client, ClientConfig};
use crate::kuberuntime::manager::RunningPod;
use crate::kuberuntime::manager::garbage::{PodStates, Scope};

/// Longer than a real runtime needs for anything here.
const PATIENCE: Duration = Duration::from_secs(30);

/// Nothing is to be kept of one pod, and nothing else is touched.
struct Gone(Uid);

impl PodStates for Gone {
    fn content_should_be_removed(&self, pod: &Uid) -> bool {
        *pod == self.0
    }

    fn runtime_should_be_removed(&self, pod: &Uid) -> bool {
        *pod == self.0
    }
}

/// Takes a pod of that spec through a case, and away with all that is left of it, come what may.
async fn on_a_real_runtime(name: &str, spec: Value, case: impl AsyncFnOnce(&World, &Pod)) {
    #[allow(clippy::disallowed_methods, reason = "that is how the users of CRI tools name a runtime")]
    let endpoint = std::env::var("CONTAINER_RUNTIME_ENDPOINT").ok().filter(|value| !value.is_empty());
    let Some(endpoint) = endpoint else {
        eprintln!("skipped: CONTAINER_RUNTIME_ENDPOINT is not set");
        return;
    };
    let world = World::real(Client::new(&endpoint.parse().unwrap(), ClientConfig::default()).unwrap());
    // A name of its own in the runtime, which others may use at the same time.
    let pod = named(&format!("{name}-{}", std::process::id()), &[], spec);
    let outcome = AssertUnwindSafe(case(&world, &pod)).catch_unwind().await;
    let running = RunningPod::from(&world.status(&pod).await);
    let killed = world.kuberuntime.kill_pod(&pod, &running, Some(0)).await;
    let uid = Uid::from(pod.metadata.uid.as_deref().unwrap());
    for container in world.status(&pod).await.containers {
        // What is left is seen below.
        let _ = world.kuberuntime.delete_container(&container.id).await;
    }
    for sandbox in running.sandboxes {
        world.kuberuntime.remove_sandbox(sandbox).await;
    }
    let left = world.listed(&pod).await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
    assert!(killed.is_ok(), "{uid}: {killed:?}");
    assert_eq!(left, None);
}

async fn exited(world: &World, pod: &Pod, name: &str) -> ContainerStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let container = world.container(pod, name).await;
        if container.state == ContainerState::Exited {
            return container;
        }
        assert!(Instant::now() < deadline, "not in time: {container:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

fn shell(name: &str, script: &str, more: Value) -> Value {
    let mut container = app(name, json!({"command": ["sh", "-c", script]}));
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    container
}

#[tokio::test]
async fn a_pod_lives_from_its_init_container_to_its_garbage() {
    let spec = json!({
        "initContainers": [shell("init", "echo ready", json!({}))],
        "containers": [shell("a", "trap 'exit 7' TERM; echo hello; sleep 3600 & wait", json!({}))],
    });
    on_a_real_runtime("lives", spec, async |world, pod| {
        world.synced(pod).await;
        exited(world, pod, "init").await;
        let status = world.synced(pod).await;
        assert_eq!((status.ips.len(), status.running().count()), (1, 1));
        assert_eq!(*world.node.ips.lock(), [status.ips.clone(), status.ips.clone()]);
        assert_eq!(world.sync(pod).await.steps, []);
        let log = fs::read_dir(world.folder.path().join("logs")).unwrap().next().unwrap().unwrap();
        let log = log.path().join("a/0.log");
        let deadline = Instant::now() + PATIENCE;
        while !fs::read_to_string(&log).unwrap().contains("stdout F hello") {
            assert!(Instant::now() < deadline, "no log in time");
            sleep(Duration::from_millis(20)).await;
        }
        assert!(world.kill(pod).await.is_ok());
        let status = world.status(pod).await;
        assert_eq!(status.container("a").unwrap().exit_code, 7);
        assert_eq!(status.sandboxes[0].state, SandboxState::NotReady);
        let gone = Gone(status.uid);
        let scope = Scope { all_sources_ready: true, ended_pods_too: false };
        world.kuberuntime.collect_garbage(&gone, scope).await.unwrap();
        assert_eq!(world.listed(pod).await, None);
        assert!(!log.exists());
    })
    .await;
}

#[tokio::test]
async fn messages_are_left_in_the_file_and_in_the_log() {
    let by_log = json!({"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "FallbackToLogsOnError"});
    let spec = json!({"restartPolicy": "Never", "containers": [
        shell("file", "echo -n done > /dev/termination-log; exit 3", by_log.clone()),
        shell("log", "echo oh; echo no >&2; exit 4", by_log),
    ]});
    on_a_real_runtime("messages", spec, async |world, pod| {
        world.synced(pod).await;
        let file = exited(world, pod, "file").await;
        assert_eq!((file.exit_code, file.message.as_str()), (3, "done"));
        let log = exited(world, pod, "log").await;
        assert_eq!(log.exit_code, 4);
        let mut lines: Vec<&str> = log.message.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["no", "oh"]);
    })
    .await;
}

#[tokio::test]
async fn hooks_run_and_a_grace_of_a_second_is_one() {
    let lifecycle = json!({
        "postStart": {"exec": {"command": ["touch", "/started"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "test -e /started && echo -n bye > /dev/termination-log"]}},
    });
    let more = json!({"lifecycle": lifecycle, "terminationMessagePath": "/dev/termination-log"});
    let spec =
        json!({"terminationGracePeriodSeconds": 1, "containers": [shell("a", "exec sleep 3600", more)]});
    on_a_real_runtime("hooks", spec, async |world, pod| {
        world.synced(pod).await;
        let began = Instant::now();
        assert!(world.kill(pod).await.is_ok());
        let took = began.elapsed();
        assert!(took < Duration::from_secs(2), "{took:?}");
        let ended = world.container(pod, "a").await;
        assert_eq!((ended.exit_code, ended.message.as_str()), (137, "bye"));
        assert_eq!(world.said("FailedPreStopHook"), []);
    })
    .await;
}

#[tokio::test]
async fn a_container_that_cannot_start_says_why() {
    let spec = json!({"containers": [app("a", json!({"command": ["/no/such/program"]}))]});
    on_a_real_runtime("cannot", spec, async |world, pod| {
        let result = world.sync(pod).await;
        let error = result.failures().next().unwrap().error.clone().unwrap();
        assert_eq!(error.reason, "RunContainerError");
        assert!(error.message.contains("/no/such/program"), "{}", error.message);
        let said = world.said("Failed").pop().unwrap();
        assert_eq!(said.0, "spec.containers{a}");
        let ended = exited(world, pod, "a").await;
        assert_eq!((ended.exit_code, ended.reason.as_str()), (128, "StartError"));
    })
    .await;
}
