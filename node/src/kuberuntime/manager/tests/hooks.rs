//! Hooks after the start and before the stop.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::world::{World, app, pass, pod, seconds};
use crate::container::ContainerState;
use crate::kuberuntime::sync_result::SyncError;
use crate::runtime::Operation;

fn hooked(kind: &str, hook: Value) -> Value {
    app("a", json!({"lifecycle": {kind: hook}}))
}

fn command() -> Value {
    json!({"exec": {"command": ["greet", "all"]}})
}

#[tokio::test(start_paused = true)]
async fn a_start_is_done_when_its_hook_is() {
    let world = World::new();
    let pod = pod(&[("exec-delay", "5s")], json!({"containers": [hooked("postStart", command())]}));
    let began = Instant::now();
    world.synced(&pod).await;
    assert_eq!(began.elapsed(), seconds(5));
    assert_eq!(world.count(Operation::ExecSync), 1);
    assert_eq!(world.container(&pod, "a").await.state, ContainerState::Running);
}

#[tokio::test(start_paused = true)]
async fn a_container_whose_start_hook_fails_is_killed() {
    let world = World::new();
    let pod = pod(
        &[("exec-code", "3"), ("exec-stdout", "out"), ("exec-stderr", "err")],
        json!({"containers": [hooked("postStart", command())]}),
    );
    let result = world.sync(&pod).await;
    let error = result.failures().next().unwrap().error.clone().unwrap();
    let message = "Exec lifecycle hook ([greet all]) for Container \"a\" in Pod \"web_shop(uid-web)\" failed - error: \
        command 'greet all' exited with 3: err, message: \"outerr\"";
    assert_eq!(error, SyncError::new("PostStartHookError", message));
    let said = ("spec.containers{a}".to_owned(), "PostStartHook failed".to_owned());
    assert_eq!(world.said("FailedPostStartHook"), [said]);
    assert_eq!(world.said("Killing")[0].1, "FailedPostStartHook");
    assert_eq!(world.container(&pod, "a").await.state, ContainerState::Exited);
    // It is started again like any other that ended.
    world.sync(&pod).await;
    assert_eq!(world.container(&pod, "a").await.restart_count, 1);
}

#[tokio::test(start_paused = true)]
async fn a_start_hook_goes_on_when_its_sync_is_dropped() {
    for (code, state) in [("0", ContainerState::Running), ("1", ContainerState::Exited)] {
        let world = World::new();
        let pod = pod(
            &[("exec-delay", "10s"), ("exec-code", code)],
            json!({"containers": [hooked("postStart", command())]}),
        );
        assert!(tokio::time::timeout(seconds(3), world.sync(&pod)).await.is_err());
        // The next sync leaves the container alone meanwhile.
        assert_eq!(world.synced(&pod).await.running().count(), 1);
        pass(8).await;
        assert_eq!(world.container(&pod, "a").await.state, state, "{code}");
        assert_eq!(world.said("FailedPostStartHook").len(), usize::from(code == "1"));
        assert_eq!(world.count(Operation::ExecSync), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_hook_that_fails_as_its_pod_is_stopped_is_of_no_account() {
    let world = World::new();
    let lifecycle = json!({"postStart": command(), "preStop": command()});
    let pod = pod(
        &[("exec-delay", "10s"), ("exec-code", "1")],
        json!({"containers": [app("a", json!({"lifecycle": lifecycle}))]}),
    );
    assert!(tokio::time::timeout(seconds(3), world.sync(&pod)).await.is_err());
    assert!(world.kill(&pod).await.is_ok());
    pass(60).await;
    assert_eq!(world.container(&pod, "a").await.state, ContainerState::Exited);
    assert!(world.said("FailedPostStartHook").is_empty());
    assert_eq!(world.said("Killing").len(), 1);
    assert_eq!(world.count(Operation::ExecSync), 2, "each hook runs once");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_stopped_while_its_failed_start_is_undone_runs_the_stop_hook_once() {
    // When the pod is stopped, the hook is running, or is done and the container has not ended.
    for stopped_after in [12, 22] {
        let world = World::new();
        let lifecycle = json!({"postStart": command(), "preStop": command()});
        let pod = pod(
            &[("exec-delay", "10s"), ("exec-code", "1"), ("stop-delay", "5s")],
            json!({"terminationGracePeriodSeconds": 60, "containers": [app("a", json!({"lifecycle": lifecycle}))]}),
        );
        let began = Instant::now();
        assert!(tokio::time::timeout(seconds(stopped_after), world.sync(&pod)).await.is_err());
        assert!(world.kill(&pod).await.is_ok());
        assert_eq!(began.elapsed(), seconds(25), "two hooks one after the other, and the stop");
        pass(60).await;
        assert_eq!(world.container(&pod, "a").await.state, ContainerState::Exited);
        assert_eq!(world.count(Operation::ExecSync), 2, "each hook runs once");
        assert_eq!(world.said("FailedPreStopHook").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_outlives_its_failed_start_hook_is_killed_by_the_next_sync() {
    use crate::runtime::Code;
    use crate::runtime::simulated::Fault;
    let world = World::new();
    let pod = pod(&[("exec-code", "1")], json!({"containers": [hooked("postStart", command())]}));
    let fails = Fault::Fails { code: Code::Unknown, message: "busy".into() };
    world.simulated.inject(Operation::StopContainer, 1, fails);
    world.sync(&pod).await;
    assert_eq!(world.container(&pod, "a").await.state, ContainerState::Running);
    world.synced(&pod).await;
    assert_eq!(world.container(&pod, "a").await.state, ContainerState::Exited);
    assert_eq!(world.said("Killing").last().unwrap().1, "FailedPostStartHook");
}

#[tokio::test(start_paused = true)]
async fn a_stop_hook_takes_its_time_from_the_grace() {
    for (hook, code, took, failed) in [
        (command(), "0", 10, 0),
        (command(), "7", 10, 1),
        (json!({"sleep": {"seconds": 4}}), "0", 10, 0),
        (json!({"sleep": {"seconds": 60}}), "0", 12, 0),
    ] {
        let world = World::new();
        let pod = pod(
            &[("stop-delay", "never"), ("exec-delay", "3s"), ("exec-code", code)],
            json!({"terminationGracePeriodSeconds": 10, "containers": [hooked("preStop", hook)]}),
        );
        world.synced(&pod).await;
        let began = Instant::now();
        assert!(world.kill(&pod).await.is_ok());
        assert_eq!(began.elapsed(), seconds(took));
        let said = world.said("FailedPreStopHook");
        assert_eq!(said.len(), failed, "{code}");
        assert!(said.iter().all(|said| said.1 == "PreStopHook failed"));
    }
}

#[tokio::test(start_paused = true)]
async fn without_grace_there_is_no_time_for_a_stop_hook() {
    let world = World::new();
    let mut pod = pod(&[], json!({"containers": [hooked("preStop", command())]}));
    world.synced(&pod).await;
    pod.metadata.deletion_grace_period_seconds = Some(0);
    assert!(world.kill(&pod).await.is_ok());
    assert_eq!(world.count(Operation::ExecSync), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hook_by_tcp_fails_as_upstreams_does() {
    let world = World::new();
    let pod = pod(&[], json!({"containers": [hooked("postStart", json!({"tcpSocket": {"port": 80}}))]}));
    let result = world.sync(&pod).await;
    let error = result.failures().next().unwrap().error.clone().unwrap();
    assert_eq!(error.reason, "PostStartHookError");
    assert!(error.message.starts_with("Cannot run handler: invalid handler: "), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_hook_that_is_given_up_is_run_by_who_else_stops_the_container() {
    let world = World::new();
    let pod = pod(
        &[("exec-delay", "10s")],
        json!({"terminationGracePeriodSeconds": 60, "containers": [hooked("preStop", command())]}),
    );
    world.synced(&pod).await;
    let began = Instant::now();
    let other = async {
        pass(1).await;
        world.kill(&pod).await
    };
    let (first, other) = tokio::join!(tokio::time::timeout(seconds(3), world.kill(&pod)), other);
    assert!(first.is_err() && other.is_ok());
    assert_eq!(began.elapsed(), seconds(13), "all of the hook once the first gave up");
    assert_eq!(world.count(Operation::ExecSync), 2);
    assert!(world.said("FailedPreStopHook").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_stop_hook_that_outlasts_its_container_is_not_begun_again() {
    let world = World::new();
    let pod = pod(
        &[("exec-delay", "90s"), ("stop-delay", "1s")],
        json!({"terminationGracePeriodSeconds": 10, "containers": [hooked("preStop", command())]}),
    );
    world.synced(&pod).await;
    let (one, other) = tokio::join!(world.kill(&pod), world.kill(&pod));
    assert!(one.is_ok() && other.is_ok());
    assert_eq!(world.count(Operation::ExecSync), 1);
}

#[tokio::test(start_paused = true)]
async fn who_has_no_time_for_the_stop_hook_leaves_it_to_others() {
    let world = World::new();
    let hasty_and_patient = |grace: Option<i64>| {
        let mut pod = pod(
            &[("stop-delay", "5s")],
            json!({"terminationGracePeriodSeconds": 60, "containers": [hooked("preStop", command())]}),
        );
        pod.metadata.deletion_grace_period_seconds = grace;
        pod
    };
    let (hasty, patient) = (hasty_and_patient(Some(0)), hasty_and_patient(None));
    world.synced(&patient).await;
    let after = async {
        pass(1).await;
        world.kill(&patient).await
    };
    let (hasty, patient) = tokio::join!(world.kill(&hasty), after);
    assert!(hasty.is_ok() && patient.is_ok());
    assert_eq!(world.count(Operation::ExecSync), 1);
}
