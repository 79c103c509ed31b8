//! Pods get more or less while they run.

use super::*;

impl Rig {
    fn refuse(&self, uid: &str) {
        let rejection = Rejection { reason: "OutOfcpu".to_owned(), message: "no cpu".to_owned() };
        self.world.refuse.lock().insert(uid.into(), rejection);
    }

    fn let_in(&self, uid: &str) {
        self.world.refuse.lock().remove(&uid.into());
    }

    /// Types and reasons of what is told of a pod's resize.
    fn told(&self, uid: &str) -> Vec<(String, String)> {
        let conditions = self.resizes.conditions(&uid.into()).into_iter();
        conditions.map(|told| (told.type_, told.reason.unwrap_or_default())).collect()
    }
}

fn deferred() -> [(String, String); 1] {
    [("PodResizePending".to_owned(), "Deferred".to_owned())]
}

#[tokio::test(start_paused = true)]
async fn a_resize_is_run_once_it_is_admitted() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[asking(pod("a"), "1"), asking(pod("b"), "1")]).await;
    rig.done().await;
    rig.tell(PodOperation::Update, &[asking(pod("a"), "2")]).await;
    assert_eq!(rig.done().await, ["admit a=2 beside [b=1]", "sync a=2"]);
    assert_eq!(rig.told("a"), [("PodResizeInProgress".to_owned(), String::new())]);
    rig.tell(PodOperation::Update, &[annotated(asking(pod("a"), "2"), "some", "thing")]).await;
    assert_eq!(rig.done().await, ["sync a=2"], "it is judged once");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_does_not_fit_changes_nothing_for_anybody() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[asking(pod("a"), "1")]).await;
    rig.done().await;
    rig.refuse("a");
    rig.tell(PodOperation::Update, &[asking(pod("a"), "9")]).await;
    assert_eq!(rig.done().await, ["admit a=9 beside []", "sync a=1"]);
    assert_eq!(rig.told("a"), deferred());
    assert_eq!(rig.events.reasons(), ["ResizeDeferred"]);
    rig.tell(PodOperation::Add, &[asking(pod("b"), "1")]).await;
    assert_eq!(rig.done().await, ["admit b=1 beside [a=1]", "sync b=1"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_waits_is_looked_at_again_as_pods_go_or_shrink() {
    let rig = Rig::new();
    let with_status = |cpu: &str, phase: &str| {
        let mut pod = in_phase(asking(pod("b"), "1"), phase);
        let statuses = json!([{
            "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "resources": { "requests": { "cpu": cpu } },
        }]);
        pod.status.as_mut().unwrap().container_statuses = serde_json::from_value(statuses).unwrap();
        pod
    };
    rig.tell(PodOperation::Add, &[asking(pod("a"), "1"), with_status("2", "Running"), pod("c")]).await;
    rig.done().await;
    rig.refuse("a");
    rig.tell(PodOperation::Update, &[asking(pod("a"), "2")]).await;
    rig.done().await;
    let judged = |done: Vec<String>| done.iter().filter(|done| done.starts_with("admit a=2")).count();
    rig.tell(PodOperation::Reconcile, &[with_status("2", "Running")]).await;
    assert_eq!(judged(rig.done().await), 0, "nothing became free");
    rig.tell(PodOperation::Reconcile, &[with_status("1", "Running")]).await;
    assert_eq!(judged(rig.done().await), 1, "a pod has less");
    rig.tell(PodOperation::Reconcile, &[with_status("1", "Failed")]).await;
    assert_eq!(judged(rig.done().await), 1, "a pod ended");
    rig.let_in("a");
    rig.tell(PodOperation::Remove, &[pod("c")]).await;
    let done = rig.done().await;
    assert!(done.contains(&"sync a=2".to_owned()), "{done:?}");
    assert_eq!(rig.told("a"), [("PodResizeInProgress".to_owned(), String::new())]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_waits_is_looked_at_again_as_time_passes() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[asking(pod("a"), "1")]).await;
    rig.done().await;
    rig.refuse("a");
    rig.tell(PodOperation::Update, &[asking(pod("a"), "2")]).await;
    rig.done().await;
    let judged = |done: Vec<String>| done.iter().filter(|done| done.starts_with("admit a=2")).count();
    assert_eq!(judged(rig.done_after(178).await), 0);
    assert_eq!(judged(rig.done_after(4).await), 1);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_back_has_what_it_was_allocated_and_waits_for_the_rest() {
    let rig = Rig::new();
    rig.resizes.allocate(&asking(pod("a"), "1"));
    rig.tell(PodOperation::Add, &[asking(pod("a"), "2"), asking(pod("b"), "1")]).await;
    let done = rig.done().await;
    let admissions: Vec<_> = done.iter().filter(|done| done.starts_with("admit")).collect();
    let expected = ["admit a=1 beside []", "admit b=1 beside [a=1]", "admit a=2 beside [b=1]"];
    assert_eq!(admissions, expected, "all have their place before anybody grows");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_goes_so_that_a_critical_pod_may_grow() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[asking(pod("a"), "1"), pod("b")]).await;
    rig.done().await;
    rig.world.victims.lock().insert(("a".into(), "b".into()));
    rig.tell(PodOperation::Update, &[asking(pod("a"), "2")]).await;
    assert_eq!(rig.done().await, ["admit a=2 beside [b]", "sync a=1"]);
    assert_eq!(rig.told("a"), deferred());
    rig.stop().await;
}
