//! Containers that keep ending wait.

use serde_json::json;

use super::world::{World, app, pass, pod, seconds};
use crate::container::ContainerState;
use crate::kuberuntime::sync_result::SyncError;
use crate::pod_workers::SyncFailure;

#[tokio::test(start_paused = true)]
async fn a_crash_loop_waits_longer_each_time_and_says_until_when() {
    let world = World::new();
    let pod = pod(&[("exit-after", "1s"), ("exit-code", "1")], json!({"containers": [app("a", json!({}))]}));
    world.synced(&pod).await;
    pass(1).await;
    // The first restart is at once.
    world.synced(&pod).await;
    for (restarts, text, wait) in [(2, "10s", 10), (3, "20s", 20), (4, "40s", 40)] {
        pass(2).await;
        let result = world.sync(&pod).await;
        let error = result.steps[0].error.clone().unwrap();
        let message = format!("back-off {text} restarting failed container=a pod=web_shop(uid-web)");
        let left = Some(seconds(wait - 1));
        assert_eq!(error, SyncError { retry_in: left, ..SyncError::new("CrashLoopBackOff", message) });
        assert_eq!(SyncFailure::of(&result).unwrap().retry_in, left);
        let said = world.said("BackOff").pop().unwrap();
        let text = "Back-off restarting failed container a in pod web_shop(uid-web)";
        assert_eq!(said, ("spec.containers{a}".to_owned(), text.to_owned()));
        pass(wait - 1).await;
        let status = world.synced(&pod).await;
        assert_eq!(status.container("a").unwrap().restart_count, restarts);
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_keeps_no_other_from_starting() {
    let world = World::new();
    let pod = pod(
        &[("exit-after.a", "1s"), ("exit-code.a", "1"), ("exit-after.b", "100s,never")],
        json!({"containers": [app("a", json!({})), app("b", json!({}))]}),
    );
    world.synced(&pod).await;
    pass(1).await;
    world.synced(&pod).await;
    pass(99).await;
    world.synced(&pod).await;
    let b = world.container(&pod, "b").await;
    assert_eq!((b.state, b.restart_count), (ContainerState::Running, 1));
    pass(2).await;
    assert!(!world.sync(&pod).await.is_ok());
    assert_eq!(world.container(&pod, "b").await.state, ContainerState::Running);
}
