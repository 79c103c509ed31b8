//! Static pods of one name.

use super::*;

/// A second static pod of the name does not run beside the first, and is not forgotten.
#[tokio::test(start_paused = true)]
async fn a_static_pod_waits_for_the_end_of_the_one_that_has_its_name() {
    let rig = Rig::new();
    rig.workers.update(create(pod("same")));
    rig.workers.update(create(static_pod("1")));
    rig.workers.update(create(static_pod("2")));
    assert_eq!(rig.done().await, ["sync same", "sync 1"], "a pod of the API server is not in the way");
    rig.script.next("terminate 1", Way::After(Duration::from_secs(5)));
    rig.workers.update(kill(static_pod("1")));
    assert_eq!(rig.done().await, ["terminate 1 30"]);
    assert!(rig.states().is_static_pod_terminating("same_ns"));
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(rig.done().await, ["clean-up 1", "sync 2"], "without waiting for a tick");
    assert!(!rig.states().is_static_pod_terminating("same_ns"));
    rig.workers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn static_pods_of_a_name_start_in_the_order_of_coming() {
    let rig = Rig::new();
    for uid in ["1", "2", "3", "4"] {
        rig.workers.update(create(static_pod(uid)));
    }
    assert_eq!(rig.done().await, ["sync 1"]);
    // One that is killed before it starts is passed over, and nothing is done for it.
    rig.workers.update(kill(static_pod("2")));
    assert_eq!(rig.done().await, [""; 0]);
    assert!(rig.states().is_pod_known_terminated(&"2".into()));
    rig.workers.update(update(static_pod("4")));
    assert_eq!(rig.done().await, [""; 0], "an update does not make it pass others");
    rig.workers.update(kill(static_pod("1")));
    assert_eq!(rig.done().await, ["terminate 1 30", "clean-up 1", "sync 3"]);
    rig.workers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_static_pod_that_waits_is_due_again_in_case_nobody_wakes_it() {
    let rig = Rig::new();
    rig.workers.update(create(static_pod("1")));
    rig.workers.update(create(static_pod("2")));
    rig.done().await;
    tokio::time::sleep(Duration::from_secs(16)).await;
    assert_eq!(rig.tick(&[static_pod("1"), static_pod("2")]), ["2"]);
    assert_eq!(rig.done().await, [""; 0]);
    rig.workers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_static_pod_that_no_source_has_gives_its_place_to_the_next() {
    let rig = Rig::new();
    for uid in ["1", "2", "3"] {
        rig.workers.update(create(static_pod(uid)));
    }
    assert_eq!(rig.done().await, ["sync 1"]);
    rig.workers.sync_known_pods(&[Arc::new(static_pod("3"))]);
    assert_eq!(rig.done().await, ["terminate 1 30", "clean-up 1", "sync 3"]);
    rig.workers.stop().await;
}

/// Its manifest was changed and has a fixed uid.
#[tokio::test(start_paused = true)]
async fn a_static_pod_of_the_same_uid_starts_again_after_its_end() {
    let rig = Rig::new();
    rig.workers.update(create(static_pod("1")));
    rig.workers.update(kill(static_pod("1")));
    rig.workers.update(create(static_pod("1")));
    assert!(rig.done().await.iter().all(|done| done != "sync 1"));
    let desired = [Arc::new(static_pod("1"))];
    assert!(rig.workers.sync_known_pods(&desired).is_empty());
    rig.workers.update(create(static_pod("1")));
    assert_eq!(rig.done().await, ["sync 1"]);
    rig.workers.stop().await;
}
