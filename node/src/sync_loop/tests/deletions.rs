//! Which ended containers go.

use super::*;
use crate::sync_loop::container_deletor::{ended, older_than};

fn status() -> PodStatus {
    PodStatus {
        containers: vec![
            container("running", "app", ContainerState::Running, 50),
            container("third", "app", ContainerState::Exited, 40),
            container("second", "app", ContainerState::Exited, 30),
            container("first", "app", ContainerState::Exited, 20),
            container("other", "side", ContainerState::Exited, 10),
        ],
        ..PodStatus::unknown_to_runtime("a".into())
    }
}

#[test]
fn older_containers_of_the_same_name_go() {
    let ids = |containers: Vec<ContainerId>| -> Vec<String> {
        containers.into_iter().map(|container| container.id).collect()
    };
    assert_eq!(ids(older_than("third", &status(), 1)), ["second", "first"]);
    assert_eq!(ids(older_than("third", &status(), 2)), ["first"]);
    assert_eq!(ids(older_than("other", &status(), 1)), [""; 0]);
    assert_eq!(ids(older_than("unknown", &status(), 1)), [""; 0]);
    assert_eq!(ids(ended(&status())), ["third", "second", "first", "other"]);
}

#[tokio::test(start_paused = true)]
async fn a_death_removes_older_ones_and_all_of_a_pod_that_is_gone() {
    let rig = Rig::new();
    rig.statuses.set(&"a".into(), Ok(status()), Instant::now());
    rig.tell(PodOperation::Add, &[pod("a")]).await;
    rig.done().await;
    rig.pleg_says("a", EventKind::ContainerDied("third".into())).await;
    let mut done = rig.done().await;
    done.sort();
    assert_eq!(done, ["remove first", "remove second", "sync a"]);
    rig.tell(PodOperation::Delete, &[deleted(pod("a"))]).await;
    rig.done().await;
    rig.pleg_says("a", EventKind::ContainerDied("third".into())).await;
    assert_eq!(rig.done().await, ["remove third", "remove second", "remove first", "remove other"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_keeps_no_ended_container() {
    let rig = Rig::new();
    rig.statuses.set(&"a".into(), Ok(status()), Instant::now());
    rig.tell(PodOperation::Add, &[pod("a")]).await;
    rig.done().await;
    let mut evicted = in_phase(pod("a"), "Failed");
    evicted.status.get_or_insert_default().reason = Some("Evicted".to_owned());
    rig.tell(PodOperation::Reconcile, &[evicted]).await;
    assert_eq!(rig.done().await, ["remove third", "remove second", "remove first", "remove other"]);
    rig.stop().await;
}
