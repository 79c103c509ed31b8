//! Pods get more or less while they run.

use super::*;

impl Rig {
    fn refuse(&self, uid: &str) {
        let rejection = Rejection::new("OutOfcpu", "no cpu");
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
async fn a_critical_pod_grows_once_those_that_make_room_are_gone() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[asking(pod("a"), "1"), pod("b")]).await;
    rig.done().await;
    rig.world.victims.lock().insert(("a".into(), "b".into()));
    rig.tell(PodOperation::Update, &[asking(pod("a"), "2")]).await;
    let done = rig.done().await;
    let place = |what: &str| done.iter().position(|done| done == what);
    assert!(place("admit a=2 beside [b]") < place("terminate b"), "{done:?}");
    assert!(place("terminate b") < place("sync a=2"), "{done:?}");
    assert_eq!(rig.told("a"), [("PodResizeInProgress".to_owned(), String::new())]);
    assert_eq!(rig.events.reasons(), ["Preempting", "ResizeStarted"]);
    assert_eq!(rig.metrics.preemptions("cpu"), 1);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn while_room_is_made_for_one_that_grows_nobody_else_takes_it() {
    let rig = Rig::new();
    let running = [asking(pod("a"), "1"), asking(pod("b"), "1"), asking(pod("c"), "1")];
    rig.tell(PodOperation::Add, &running).await;
    rig.done().await;
    rig.world.victims.lock().insert(("a".into(), "b".into()));
    rig.world.stuck.lock().insert("b".into());
    // One that changes its mind meanwhile has what room was made for, and waits for the rest.
    rig.tell(PodOperation::Update, &[asking(pod("a"), "2"), asking(pod("c"), "2")]).await;
    rig.tell(PodOperation::Update, &[asking(pod("a"), "3")]).await;
    rig.tell(PodOperation::Add, &[asking(pod("new"), "1")]).await;
    let done = rig.done().await;
    let admissions = |done: &[String]| -> Vec<String> {
        done.iter().filter(|done| done.starts_with("admit")).cloned().collect()
    };
    assert_eq!(admissions(&done), ["admit a=2 beside [b=1 c=1]"]);
    rig.world.victims.lock().clear();
    let done = rig.done_after(50).await;
    let expected = [
        "admit new=1 beside [a=2 b=1 c=1]",
        "admit c=2 beside [a=2 b=1 new=1]",
        "admit a=3 beside [b=1 c=2 new=1]",
    ];
    assert_eq!(admissions(&done), expected);
    for synced in ["sync a=3", "sync c=2", "sync new=1"] {
        assert!(done.contains(&synced.to_owned()), "{synced}: {done:?}");
    }
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_goes_while_room_is_made_for_it_holds_up_nobody() {
    let rig = Rig::new();
    rig.tell(PodOperation::Add, &[asking(pod("a"), "1"), asking(pod("b"), "1")]).await;
    rig.done().await;
    rig.world.victims.lock().insert(("a".into(), "b".into()));
    rig.world.stuck.lock().insert("b".into());
    rig.tell(PodOperation::Update, &[asking(pod("a"), "2")]).await;
    rig.tell(PodOperation::Remove, &[asking(pod("a"), "2")]).await;
    rig.tell(PodOperation::Add, &[asking(pod("c"), "1")]).await;
    let done = rig.done_after(50).await;
    assert!(done.contains(&"sync c=1".to_owned()), "{done:?}");
    assert!(!done.contains(&"sync a=2".to_owned()), "{done:?}");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_is_not_resized_and_nobody_goes_for_it() {
    let large = || asking(pod("a"), "2");
    for (killed, update) in [(false, deleted(large())), (false, in_phase(large(), "Failed")), (true, large())]
    {
        let rig = Rig::new();
        rig.tell(PodOperation::Add, &[asking(pod("a"), "1"), pod("b"), pod("c")]).await;
        rig.done().await;
        rig.world.victims.lock().insert(("a".into(), "b".into()));
        if killed {
            rig.workers.update(Update::kill(Arc::new(asking(pod("a"), "1"))));
        }
        rig.tell(PodOperation::Update, &[update]).await;
        rig.tell(PodOperation::Remove, &[pod("c")]).await;
        let done = rig.done_after(200).await;
        let not = |what: &str| !done.iter().any(|done| done.starts_with(what));
        assert!(not("admit") && not("terminate b") && not("sync a=2"), "{killed}: {done:?}");
        assert!(!rig.resizes.has_pending());
        rig.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_wants_no_more_once_there_is_room_does_not_get_it() {
    for (update, looked_at, started) in [
        (deleted(asking(pod("a"), "2")), false, false),
        (in_phase(asking(pod("a"), "2"), "Failed"), false, false),
        (asking(pod("a"), "1"), false, false),
        (asking(pod("a"), "500m"), true, true),
        (asking(pod("a"), "2"), false, true),
    ] {
        let rig = Rig::new();
        rig.tell(PodOperation::Add, &[asking(pod("a"), "1"), asking(pod("b"), "1")]).await;
        rig.done().await;
        rig.world.victims.lock().insert(("a".into(), "b".into()));
        rig.world.stuck.lock().insert("b".into());
        rig.tell(PodOperation::Update, &[asking(pod("a"), "2")]).await;
        assert_eq!(rig.done().await.first().map(String::as_str), Some("admit a=2 beside [b=1]"));
        rig.world.victims.lock().clear();
        rig.tell(PodOperation::Update, std::slice::from_ref(&update)).await;
        let done = rig.done_after(50).await;
        let case = format!("{}: {done:?}", sized(&update));
        assert_eq!(done.iter().any(|done| done.starts_with("admit a")), looked_at, "{case}");
        assert_eq!(rig.events.reasons().contains(&"ResizeStarted"), started, "{case}");
        assert_eq!(done.contains(&"sync a=2".to_owned()), started && !looked_at, "{case}");
        assert!(!rig.resizes.has_pending(), "{case}");
        rig.stop().await;
    }
}
