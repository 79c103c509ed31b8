//! How pods end, with tasks.

use tokio::sync::oneshot;

use super::*;
use crate::container::{SandboxState, SandboxStatus};

#[tokio::test(start_paused = true)]
async fn a_pod_whose_containers_ended_is_taken_to_its_end_at_once() {
    let rig = Rig::new();
    rig.script.next("sync a", Way::Well(Synced::Ended));
    rig.workers.update(create(pod("a")));
    assert_eq!(rig.done().await, ["sync a", "terminate a own", "clean-up a"]);
    assert!(rig.states().should_pod_be_finished(&"a".into()));
    assert!(rig.workers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_sync_under_way_is_broken_off_when_the_pod_must_end() {
    let rig = Rig::new();
    rig.script.next("sync a", Way::Hangs);
    rig.workers.update(create(pod("a")));
    assert_eq!(rig.done().await, ["sync a"]);
    rig.workers.update(update(deleted(pod("a"), 5)));
    assert_eq!(rig.done().await, ["sync a dropped", "terminate a 5", "clean-up a"]);
}

#[tokio::test(start_paused = true)]
async fn a_whole_part_of_a_sync_ends_before_the_pod_does() {
    let rig = Rig::new();
    rig.script.next("sync a", Way::HangsAfterWhole(Duration::from_secs(3)));
    rig.workers.update(create(pod("a")));
    assert_eq!(rig.done().await, ["sync a"]);
    rig.workers.update(update(deleted(pod("a"), 5)));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(rig.done().await, [""; 0]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(rig.done().await, ["sync a dropped", "terminate a 5", "clean-up a"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_no_part_of_a_sync() {
    let rig = Rig::new();
    rig.script.next("sync a", Way::HangsAfterWhole(Duration::from_secs(3)));
    rig.workers.update(create(pod("a")));
    assert_eq!(rig.done().await, ["sync a"]);
    let began = Instant::now();
    rig.workers.stop().await;
    assert_eq!((rig.script.take(), began.elapsed()), (vec!["sync a dropped".to_owned()], Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_shorter_grace_breaks_off_the_termination_and_a_longer_one_does_not() {
    let rig = Rig::new();
    rig.workers.update(create(pod("a")));
    rig.settle().await;
    rig.script.next("terminate a", Way::Hangs);
    rig.script.next("terminate a", Way::After(Duration::from_secs(2)));
    rig.workers.update(kill_within(pod("a"), 20));
    assert_eq!(rig.done().await, ["sync a", "terminate a 20"]);
    rig.workers.update(kill_within(pod("a"), 25));
    assert_eq!(rig.done().await, [""; 0]);
    rig.workers.update(kill_within(pod("a"), 2));
    assert_eq!(rig.done().await, ["terminate a 20 dropped", "terminate a 2"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(rig.done().await, ["clean-up a"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_for_its_status_can_be_told_to_end() {
    let rig = Rig::new();
    rig.runtime.stuck.lock().push("a".into());
    rig.workers.update(create(pod("a")));
    assert_eq!(rig.done().await, [""; 0]);
    assert_eq!(*rig.runtime.requested.lock(), ["a".into()], "the runtime is asked at once");
    rig.workers.update(kill(pod("a")));
    rig.settle().await;
    rig.runtime.stuck.lock().clear();
    rig.workers.update(kill_within(pod("a"), 3));
    assert_eq!(rig.done().await, ["terminate a 3", "clean-up a"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_kills_waits_until_nothing_runs() {
    let rig = Rig::new();
    rig.workers.update(create(pod("a")));
    rig.script.next("terminate a", Way::After(Duration::from_secs(4)));
    let change = StatusChange::new(|status| status.reason = Some("Evicted".to_owned()));
    let began = Instant::now();
    let killed = rig.workers.kill_now(Arc::new(pod("a")), true, Some(5), Some(change)).await;
    assert_eq!((killed, began.elapsed()), (Ok(()), Duration::from_secs(4)));
    assert!(rig.script.said().contains(&"terminate a 5 Evicted".to_owned()));
    let again = rig.workers.kill_now(Arc::new(pod("a")), false, None, None).await;
    assert_eq!((again, began.elapsed()), (Ok(()), Duration::from_secs(4)), "it has ended");
}

#[tokio::test(start_paused = true)]
async fn whoever_kills_waits_half_as_long_again_at_most() {
    let rig = Rig::new();
    rig.workers.update(create(pod("a")));
    rig.script.next("terminate a", Way::Hangs);
    let began = Instant::now();
    assert_eq!(rig.workers.kill_now(Arc::new(pod("a")), false, None, None).await, Err(KillTimeout));
    assert_eq!(began.elapsed(), Duration::from_secs(45));
    assert_eq!(rig.events.reasons(), ["ExceededGracePeriod"]);
    rig.workers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_runtime_alone_is_stopped_and_forgotten() {
    let rig = Rig::new();
    rig.script.next("terminate-runtime a", Way::Fails(SyncFailure::new("no")));
    rig.workers.update(Update::kill_runtime_pod(runtime_pod("a")));
    assert_eq!(rig.done().await, ["terminate-runtime a"]);
    assert_eq!(rig.workers.sync_known_pods(&[]).len(), 1);
    assert_eq!(rig.done().await, ["terminate-runtime a"], "tried again at each housekeeping");
    assert!(rig.workers.sync_known_pods(&[]).is_empty());
    assert!(rig.workers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_terminal_phase_is_stopped_only_if_something_of_it_runs() {
    let rig = Rig::new();
    let sandbox = SandboxStatus {
        id: "s".to_owned(),
        state: SandboxState::Ready,
        attempt: 0,
        created_at: jiff::Timestamp::UNIX_EPOCH,
        network_mode: Default::default(),
        network: None,
        runtime_handler: String::new(),
    };
    let status = PodStatus { sandboxes: vec![sandbox], ..PodStatus::unknown_to_runtime("b".into()) };
    rig.runtime.pods.lock().insert("b".into(), Ok(Arc::new(status)));
    rig.workers.update(create(in_phase(pod("a"), "Succeeded")));
    assert!(rig.states().is_pod_known_terminated(&"a".into()), "it takes no place, from the first moment");
    assert_eq!(rig.done().await, ["clean-up a"]);
    rig.workers.update(create(in_phase(pod("b"), "Failed")));
    assert!(!rig.states().is_pod_known_terminated(&"b".into()));
    assert_eq!(rig.done().await, ["terminate b 30", "clean-up b"]);
}

#[tokio::test(start_paused = true)]
async fn a_kill_that_comes_before_the_first_sync_is_carried_out() {
    let rig = Rig::new();
    let (done, told) = oneshot::channel();
    rig.workers.update(create(pod("a")));
    rig.workers.update(Update { kill: Some(Kill { done: Some(done), ..Kill::default() }), ..kill(pod("a")) });
    rig.workers.update(update(pod("a")));
    assert_eq!(rig.done().await, ["terminate a 30", "clean-up a"]);
    assert_eq!(told.await, Ok(()));
}
