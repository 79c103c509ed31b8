//! Room is made for pods that the node can't do without.

use super::*;

impl Rig {
    /// The first finds room only once the second is gone.
    fn needs(&self, critical: &str, victim: &str) {
        self.world.victims.lock().insert((critical.into(), victim.into()));
    }

    fn hang(&self, uid: &str) {
        self.world.stuck.lock().insert(uid.into());
    }
}

#[tokio::test(start_paused = true)]
async fn a_critical_pod_starts_once_those_that_make_room_are_gone() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[pod("a"), pod("b")]).await;
    rig.done().await;
    rig.needs("critical", "a");
    rig.tell(PodOperation::Add, &[pod("critical")]).await;
    let done = rig.done().await;
    assert_eq!(done, ["admit critical beside [a b]", "terminate a", "clean-up a", "sync critical"]);
    let said = rig.events.all().remove(0);
    assert_eq!(
        (said.reason, said.message.as_str()),
        ("Preempting", "Preempted in order to admit critical pod")
    );
    assert_eq!(rig.metrics.preemptions("cpu"), 1);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn while_room_is_made_new_pods_wait_in_order_and_nothing_is_tidied_up() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[pod("a")]).await;
    rig.done().await;
    rig.needs("critical", "a");
    rig.hang("a");
    rig.tell(PodOperation::Add, &[pod("critical"), pod("b")]).await;
    rig.tell(PodOperation::Add, &[pod("c"), pod("gone")]).await;
    rig.tell(PodOperation::Update, &[pod("critical"), pod("b")]).await;
    rig.pleg_says("critical", EventKind::PodSync).await;
    rig.tell(PodOperation::Remove, &[pod("gone")]).await;
    let done = rig.done().await;
    assert_eq!(done, ["admit critical beside [a]", "terminate a", "terminate gone", "clean-up gone"]);
    let looks = *rig.world.looks.lock();
    assert_eq!(rig.done_after(9).await, [""; 0], "nobody starts them by another way");
    assert_eq!(*rig.world.looks.lock(), looks);
    // Nobody waits for ever.
    let done = rig.done_after(40).await;
    let admissions: Vec<_> = done.iter().filter(|done| done.starts_with("admit")).collect();
    assert_eq!(admissions, ["admit b beside [a critical]", "admit c beside [a b critical]"]);
    for started in ["sync critical", "sync b", "sync c"] {
        assert!(done.contains(&started.to_owned()), "{done:?}");
    }
    assert_eq!(rig.metrics.preemptions("cpu"), 0, "it did not end in time");
    assert!(*rig.world.looks.lock() > looks);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn room_is_made_for_one_critical_pod_after_the_other() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[pod("a"), pod("b")]).await;
    rig.done().await;
    rig.needs("first", "a");
    rig.needs("second", "b");
    rig.tell(PodOperation::Add, &[pod("first"), pod("second"), pod("last")]).await;
    let done = rig.done().await;
    let place =
        |what: &str| done.iter().position(|done| done == what).unwrap_or_else(|| panic!("{what}: {done:?}"));
    let order = [
        "admit first beside [a b]",
        "clean-up a",
        "admit second beside [b first]",
        "clean-up b",
        "admit last beside [first second]",
        "sync last",
    ];
    assert!(order.map(place).is_sorted(), "{done:?}");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_critical_pod_that_ends_while_room_is_made_for_it_takes_none() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[pod("a")]).await;
    rig.done().await;
    rig.needs("critical", "a");
    rig.hang("a");
    let critical = asking(pod("critical"), "1");
    rig.tell(PodOperation::Add, std::slice::from_ref(&critical)).await;
    rig.tell(PodOperation::Reconcile, &[in_phase(critical, "Failed")]).await;
    rig.done_after(50).await;
    let other = Arc::new(asking(pod("critical"), "2"));
    assert!(Arc::ptr_eq(&rig.resizes.allocated(&other), &other), "nothing was allocated to it");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_critical_pod_that_goes_while_room_is_made_for_it_never_starts() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[pod("a")]).await;
    rig.done().await;
    rig.needs("critical", "a");
    rig.hang("a");
    rig.tell(PodOperation::Add, &[pod("critical"), pod("b")]).await;
    rig.tell(PodOperation::Remove, &[pod("critical")]).await;
    let done = rig.done_after(50).await;
    assert!(done.contains(&"sync b".to_owned()), "{done:?}");
    assert!(!done.contains(&"sync critical".to_owned()), "{done:?}");
    rig.stop().await;
}
