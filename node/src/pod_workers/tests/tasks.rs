//! Workers side by side.

use super::*;

#[tokio::test(start_paused = true)]
async fn updates_during_a_sync_become_one() {
    let rig = Rig::new();
    let version = |generation| {
        let mut pod = pod("a");
        pod.metadata.generation = Some(generation);
        pod
    };
    rig.script.next("sync a", Way::After(Duration::from_secs(1)));
    rig.workers.update(create(version(1)));
    assert_eq!(rig.done().await, ["sync a v1"]);
    for generation in 2..=5 {
        rig.workers.update(update(version(generation)));
    }
    assert_eq!(rig.done().await, [""; 0], "a sync is not broken off for news");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(rig.done().await, ["sync a v5"]);
    rig.workers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_hangs_holds_up_no_other_pod() {
    let rig = Rig::new();
    rig.script.next("sync stuck", Way::Hangs);
    rig.workers.update(create(pod("stuck")));
    rig.runtime.stuck.lock().push("blind".into());
    rig.workers.update(create(pod("blind")));
    assert_eq!(rig.done().await, ["sync stuck"]);
    for number in 0..20 {
        rig.workers.update(create(pod(&number.to_string())));
    }
    assert_eq!(rig.done().await.len(), 20);
    assert_eq!(rig.workers.len(), 22);
    rig.workers.stop().await;
    assert_eq!(rig.script.take(), ["sync stuck dropped"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_comes_again_after_its_back_off() {
    let rig = Rig::new();
    let failure = |seconds: Option<u64>| SyncFailure {
        retry_in: seconds.map(Duration::from_secs),
        ..SyncFailure::new("no")
    };
    for (fails, low, high) in [
        (failure(None), 10, 15),
        (failure(Some(3)), 3, 5),
        (failure(Some(600)), 60, 90),
        (SyncFailure::network_not_ready("no CNI"), 1, 2),
    ] {
        rig.script.next("sync a", Way::Fails(fails));
        rig.workers.update(update(pod("a")));
        rig.done().await;
        tokio::time::sleep(Duration::from_millis(low * 1000 - 1)).await;
        assert_eq!(rig.tick(&[pod("a")]), [""; 0], "{low}");
        tokio::time::sleep(Duration::from_secs(high - low)).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(rig.tick(&[pod("a")]), ["a"], "{high}");
        assert_eq!(rig.done().await, ["sync a"]);
    }
    rig.workers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_well_is_synced_again_after_a_minute_or_so() {
    let rig = Rig::new();
    rig.workers.update(create(pod("a")));
    rig.done().await;
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(rig.tick(&[pod("a")]), [""; 0]);
    tokio::time::sleep(Duration::from_secs(32)).await;
    assert_eq!(rig.tick(&[pod("a")]), ["a"]);
    assert_eq!(rig.done().await, ["sync a"]);
    rig.workers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_counted_and_the_sync_tried_again() {
    let rig = Rig::new();
    rig.script.next("sync a", Way::Panics);
    rig.workers.update(create(pod("a")));
    assert_eq!(rig.done().await, ["sync a"]);
    assert_eq!(rig.workers.metrics().panics(), 1);
    tokio::time::sleep(Duration::from_secs(16)).await;
    assert_eq!(rig.tick(&[pod("a")]), ["a"]);
    assert_eq!(rig.done().await, ["sync a"]);
    rig.script.next("terminate a", Way::Panics);
    rig.workers.update(kill(pod("a")));
    assert_eq!(rig.done().await, ["terminate a 30"]);
    assert!(rig.states().could_have_running_containers(&"a".into()));
    tokio::time::sleep(Duration::from_secs(16)).await;
    rig.tick(&[pod("a")]);
    assert_eq!(rig.done().await, ["terminate a 30", "clean-up a"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_inspected_is_told_of_and_tried_again() {
    let rig = Rig::new();
    rig.runtime.pods.lock().insert("a".into(), failed_inspection());
    rig.workers.update(create(pod("a")));
    assert_eq!(rig.done().await, [""; 0]);
    let told = rig.events.all().remove(0);
    assert_eq!((told.reason, told.name.as_str()), ("FailedSync", "a"));
    assert_eq!(told.message, "error determining status: inspect the pod: it is asleep");
    rig.runtime.pods.lock().clear();
    tokio::time::sleep(Duration::from_secs(16)).await;
    rig.tick(&[pod("a")]);
    assert_eq!(rig.done().await, ["sync a"]);
    rig.workers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_to_which_something_was_done_is_listed_at_once() {
    let rig = Rig::new();
    rig.workers.update(create(pod("idle")));
    rig.script.next("sync busy", Way::Well(Synced::Changed));
    rig.workers.update(create(pod("busy")));
    rig.done().await;
    assert_eq!(*rig.runtime.requested.lock(), ["busy".into()]);
    rig.workers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_no_task_is_left_and_none_begins() {
    let rig = Rig::new();
    rig.script.next("terminate b", Way::Hangs);
    for uid in ["a", "b"] {
        rig.workers.update(create(pod(uid)));
    }
    rig.settle().await;
    rig.workers.update(kill(pod("b")));
    assert_eq!(rig.done().await, ["sync a", "sync b", "terminate b 30"]);
    rig.workers.stop().await;
    assert!(rig.workers.is_empty());
    assert_eq!(rig.script.take(), ["terminate b 30 dropped"]);
    rig.workers.update(create(pod("c")));
    assert_eq!(rig.done().await, [""; 0]);
    assert!(rig.workers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_durations_of_syncs_are_measured_by_kind() {
    let rig = Rig::new();
    let registry = prometheus::Registry::new();
    rig.workers.metrics().register(&registry).unwrap();
    rig.script.next("sync a", Way::After(Duration::from_secs(2)));
    let mut seen = pod("a");
    let annotations = seen.metadata.annotations.get_or_insert_default();
    annotations.insert("kubernetes.io/config.seen".to_owned(), "2024-01-01T00:00:00Z".to_owned());
    rig.workers.update(create(seen));
    rig.settle().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    rig.workers.update(kill(pod("a")));
    rig.settle().await;
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    for line in [
        "kubelet_pod_worker_duration_seconds_sum{operation_type=\"create\"} 2",
        "kubelet_pod_worker_duration_seconds_count{operation_type=\"kill\"} 1",
        "kubelet_pod_worker_start_duration_seconds_count 1",
        "kubelet_containers_per_pod_count_count 1",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}
