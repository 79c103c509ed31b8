//! Pods come up.

use std::fs;

use serde_json::json;

use super::world::{World, app, pass, pod, seconds};
use crate::container::{ContainerState, SandboxState};
use crate::events::EventType;
use crate::kuberuntime::sync_result::SyncAction;
use crate::runtime::{Operation, RuntimeService};

#[tokio::test(start_paused = true)]
async fn a_pod_comes_up_with_its_sandbox_and_containers() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({})), app("b", json!({}))]}));
    let result = world.sync(&pod).await;
    let steps: Vec<_> = result.steps.iter().map(|step| (step.action, step.target.as_str())).collect();
    assert_eq!(
        steps,
        [
            (SyncAction::KillPodSandbox, "uid-web"),
            (SyncAction::CreatePodSandbox, "web_shop(uid-web)"),
            (SyncAction::StartContainer, "a"),
            (SyncAction::StartContainer, "b"),
        ]
    );
    assert!(result.is_ok());
    let status = world.status(&pod).await;
    assert_eq!(status.ips.len(), 1);
    assert_eq!(status.running().count(), 2);
    assert_eq!((status.name.as_str(), status.namespace.as_str()), ("web", "shop"));
    assert_eq!(*world.node.ips.lock(), [status.ips.clone(), status.ips.clone()]);
    assert_eq!(*world.node.ready.lock(), 1);
    let said: Vec<_> =
        world.events.all().into_iter().map(|said| (said.field_path, said.reason, said.message)).collect();
    let event = |container: &str, reason, message: &str| {
        (format!("spec.containers{{{container}}}"), reason, message.to_owned())
    };
    assert_eq!(
        said,
        [
            event("a", "Created", "Container created"),
            event("a", "Started", "Container started"),
            event("b", "Created", "Container created"),
            event("b", "Started", "Container started"),
        ]
    );
    assert!(world.events.all().iter().all(|said| said.kind == EventType::Normal && said.name == "web"));
    assert_eq!(world.metrics.started_pods.get(), 1);
    assert_eq!(world.metrics.started_containers.with_label_values(&["container"]).get(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_as_it_should_be_is_left_alone() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    let status = world.synced(&pod).await;
    let calls = world.simulated.calls().len();
    let result = world.sync_seeing(&pod, &status).await;
    assert_eq!(result.steps, []);
    assert_eq!(world.simulated.calls().len(), calls);
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_one_after_another_before_the_others() {
    let world = World::new();
    let pod = pod(
        &[("exit-after.one", "1s"), ("exit-after.two", "1s")],
        json!({
            "initContainers": [app("one", json!({})), app("two", json!({}))],
            "containers": [app("a", json!({}))],
        }),
    );
    for (running, wait) in [("one", 2), ("two", 2), ("a", 0)] {
        let status = world.synced(&pod).await;
        let names: Vec<&str> = status.running().map(|container| container.name.as_str()).collect();
        assert_eq!(names, [running]);
        pass(wait).await;
    }
    assert_eq!(world.said("Started")[1].0, "spec.initContainers{two}");
    assert_eq!(world.metrics.started_containers.with_label_values(&["init_container"]).get(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_runs_on_beside_the_others() {
    let world = World::new();
    let pod = pod(
        &[],
        json!({
            "initContainers": [app("side", json!({"restartPolicy": "Always"}))],
            "containers": [app("a", json!({}))],
        }),
    );
    world.synced(&pod).await;
    let status = world.synced(&pod).await;
    let mut names: Vec<&str> = status.running().map(|container| container.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "side"]);
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_container_sees_its_target() {
    let world = World::new();
    let mut pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    world.synced(&pod).await;
    let debug = |name: &str, target: &str| {
        serde_json::from_value(app(name, json!({"targetContainerName": target}))).unwrap()
    };
    pod.spec.as_mut().unwrap().ephemeral_containers = Some(vec![debug("lost", "b"), debug("debug", "a")]);
    let result = world.sync(&pod).await;
    let failed: Vec<_> = result.failures().collect();
    assert_eq!(failed.len(), 1, "{result:?}");
    let error = failed[0].error.as_ref().unwrap();
    assert_eq!((failed[0].target.as_str(), error.reason.as_str()), ("lost", "CreateContainerConfigError"));
    assert_eq!(error.message, "unable to find target container b");
    assert_eq!(world.container(&pod, "debug").await.state, ContainerState::Running);
    assert_eq!(world.said("Started").last().unwrap().0, "spec.ephemeralContainers{debug}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_sandbox_is_replaced_and_told_of() {
    let world = World::new();
    let pod = pod(&[("sandbox-exit-after", "10s,never")], json!({"containers": [app("a", json!({}))]}));
    world.synced(&pod).await;
    assert_eq!(world.said("SandboxChanged"), []);
    pass(11).await;
    let status = world.synced(&pod).await;
    let message = "Pod sandbox changed, it will be killed and re-created.";
    assert_eq!(world.said("SandboxChanged"), [(String::new(), message.to_owned())]);
    let states: Vec<_> = status.sandboxes.iter().map(|sandbox| (sandbox.attempt, sandbox.state)).collect();
    assert_eq!(states, [(1, SandboxState::Ready), (0, SandboxState::NotReady)]);
    assert_eq!(status.container("a").unwrap().restart_count, 1);
    assert_eq!(status.running().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn init_containers_start_over_in_a_new_sandbox() {
    let world = World::new();
    let pod = pod(
        &[("sandbox-exit-after", "10s,never"), ("exit-after.one", "1s")],
        json!({"initContainers": [app("one", json!({}))], "containers": [app("a", json!({}))]}),
    );
    world.synced(&pod).await;
    pass(2).await;
    world.synced(&pod).await;
    let first = world.container(&pod, "one").await.id;
    pass(11).await;
    let status = world.synced(&pod).await;
    let init: Vec<_> = status.containers.iter().filter(|container| container.name == "one").collect();
    assert_eq!(init.len(), 1);
    assert!(init[0].id != first && init[0].state == ContainerState::Running);
}

#[tokio::test(start_paused = true)]
async fn a_container_whose_image_changes_is_replaced() {
    let world = World::new();
    let mut pod = pod(&[], json!({"containers": [app("a", json!({})), app("b", json!({}))]}));
    let before = world.synced(&pod).await;
    world.simulated.add_image("other:2");
    pod.spec.as_mut().unwrap().containers[0].image = Some("other:2".into());
    let after = world.synced(&pod).await;
    assert_eq!(before.container("b").unwrap().id, after.container("b").unwrap().id);
    let replaced = after.container("a").unwrap();
    assert_eq!((replaced.state, replaced.restart_count), (ContainerState::Running, 1));
    let killing = "Container a definition changed, will be restarted";
    assert_eq!(world.said("Killing"), [("spec.containers{a}".to_owned(), killing.to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_fails_its_liveness_probe_is_replaced() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    world.synced(&pod).await;
    world.fails_liveness(&pod, "a").await;
    let status = world.synced(&pod).await;
    assert_eq!(status.container("a").unwrap().restart_count, 1);
    let killing = "Container a failed liveness probe, will be restarted";
    assert_eq!(world.said("Killing")[0].1, killing);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_run_its_course_loses_its_sandbox() {
    let world = World::new();
    let pod =
        pod(&[("exit-after", "1s")], json!({"restartPolicy": "Never", "containers": [app("a", json!({}))]}));
    world.synced(&pod).await;
    pass(2).await;
    let status = world.synced(&pod).await;
    assert_eq!(status.sandboxes[0].state, SandboxState::NotReady);
    assert_eq!(world.count(Operation::CreateContainer), 1);
    world.synced(&pod).await;
    assert_eq!(world.count(Operation::RunPodSandbox), 1);
}

#[tokio::test(start_paused = true)]
async fn all_containers_start_over_where_that_is_asked_for() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({})), app("b", json!({}))]}));
    let status = world.synced(&pod).await;
    let inputs = super::super::SyncInputs { restart_all_containers: true, ..world.inputs() };
    let result = world.kuberuntime.sync_pod(&pod, &status, &inputs).await;
    let removed =
        |step: &crate::kuberuntime::sync_result::SyncResult| step.action == SyncAction::RemoveContainer;
    assert!(result.is_ok() && result.steps.iter().all(removed) && result.steps.len() == 2, "{result:?}");
    assert_eq!(world.status(&pod).await.containers, []);
    let status = world.synced(&pod).await;
    assert_eq!(status.running().count(), 2);
    // The logs stayed, so the count goes on.
    assert_eq!(status.container("a").unwrap().restart_count, 1);
}

#[tokio::test(start_paused = true)]
async fn the_logs_tell_the_restart_count_that_the_runtime_forgot() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    let folder = world.folder.path().join("logs/shop_web_uid-web/a");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("4.log"), "").unwrap();
    let status = world.synced(&pod).await;
    assert_eq!(status.container("a").unwrap().restart_count, 5);
    assert!(folder.join("5.log").exists());
}

#[tokio::test(start_paused = true)]
async fn past_the_highest_restart_count_it_begins_anew() {
    let world = World::new();
    let pod = pod(&[("exit-after", "1s")], json!({"containers": [app("a", json!({}))]}));
    world.synced(&pod).await;
    pass(2).await;
    let mut status = world.status(&pod).await;
    world.simulated.remove_container(&status.containers[0].id.id).await.unwrap();
    status.containers[0].restart_count = u32::MAX;
    assert!(world.sync_seeing(&pod, &status).await.is_ok());
    assert_eq!(world.status(&pod).await.container("a").unwrap().restart_count, 0);
}

#[tokio::test(start_paused = true)]
async fn logs_are_linked_where_collectors_of_the_old_way_look() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [app("a", json!({}))]}));
    let status = world.synced(&pod).await;
    let id = &status.container("a").unwrap().id.id;
    let link = world.folder.path().join(format!("links/web_shop_a-{id}.log"));
    assert_eq!(fs::read_link(&link).unwrap(), world.folder.path().join("logs/shop_web_uid-web/a/0.log"));
}

#[tokio::test(start_paused = true)]
async fn a_container_leaves_its_termination_message() {
    let world = World::new();
    let pod = pod(
        &[("exit-after", "1s"), ("exit-code", "3"), ("termination-message", "out of ideas")],
        json!({"containers": [app("a", json!({"terminationMessagePath": "/dev/termination-log"}))]}),
    );
    world.synced(&pod).await;
    pass(2).await;
    let ended = world.container(&pod, "a").await;
    assert_eq!(
        (ended.exit_code, ended.message.as_str(), ended.reason.as_str()),
        (3, "out of ideas", "Error")
    );
    let files = fs::read_dir(world.folder.path().join("root/pods/uid-web/containers/a")).unwrap();
    let modes: Vec<u32> = files
        .map(|file| std::os::unix::fs::PermissionsExt::mode(&file.unwrap().metadata().unwrap().permissions()))
        .collect();
    assert_eq!(modes, [0o100_666]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_container_without_message_leaves_the_end_of_its_log() {
    let world = World::new();
    let policy = json!({"terminationMessagePath": "/t", "terminationMessagePolicy": "FallbackToLogsOnError"});
    let pod = pod(
        &[("exit-after", "1s"), ("exit-code", "1"), ("log", "last words")],
        json!({"containers": [app("a", policy)]}),
    );
    world.synced(&pod).await;
    pass(2).await;
    assert_eq!(world.container(&pod, "a").await.message, "last words\n");
}

#[tokio::test(start_paused = true)]
async fn one_pods_hung_call_holds_up_no_other() {
    use crate::runtime::simulated::Fault;
    let world = World::new();
    let hung = super::world::named("hung", &[], json!({"containers": [app("a", json!({}))]}));
    let pods = ["one", "two", "three"]
        .map(|name| super::world::named(name, &[], json!({"containers": [app("a", json!({}))]})));
    world.simulated.inject_for("uid-hung", Operation::RunPodSandbox, 1, Fault::Hangs);
    let began = tokio::time::Instant::now();
    let others = async {
        for pod in &pods {
            world.synced(pod).await;
        }
        began.elapsed()
    };
    let (stuck, took) = tokio::join!(world.sync(&hung), others);
    assert!(took < seconds(1), "{took:?}");
    assert!(!stuck.is_ok());
    world.synced(&hung).await;
}
