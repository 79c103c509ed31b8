//! Which ended containers go.

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

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

/// Counts what it is asked for, and answers only after a permit.
struct Slow {
    asked: Mutex<Vec<String>>,
    permits: Semaphore,
}

#[async_trait]
impl ContainerRemover for Slow {
    async fn remove_container(&self, container: &ContainerId) -> Result<(), String> {
        self.asked.lock().push(container.id.clone());
        self.permits.acquire().await.map_err(|closed| closed.to_string())?.forget();
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_being_removed_is_not_removed_twice() {
    let (statuses, stop) = (StatusCache::new(), CancellationToken::new());
    let slow = Arc::new(Slow { asked: Mutex::default(), permits: Semaphore::new(0) });
    statuses.set(&"a".into(), Ok(status()), Instant::now());
    let (deletor, deletions) = ContainerDeletor::new(statuses.reader(), slow.clone(), 1);
    let mut tasks = JoinSet::new();
    tasks.spawn(deletor.run(stop.clone()));
    for _ in 0..3 {
        deletions.container_died(&"a".into(), "third");
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(*slow.asked.lock(), ["second", "first"]);
    slow.permits.add_permits(100);
    tokio::time::sleep(Duration::from_millis(1)).await;
    // One that is there all the same is asked for again.
    deletions.container_died(&"a".into(), "third");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(*slow.asked.lock(), ["second", "first", "second", "first"]);
    stop.cancel();
    tasks.join_all().await;
}
