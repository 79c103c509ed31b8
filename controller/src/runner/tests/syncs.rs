use Happened::{Absorbed, Finished};

use steersman_informer::work_queue::{ItemExponential, OncePerWindow};

use super::super::sync::{Synced, sync};
use super::*;

/// Runs one sync of a toy that observes this.
async fn synced(sight: Sight) -> (String, Vec<Happened>) {
    let toy = Toy::new([sight]);
    let clock = Clock::of(|| Time::from_seconds(0));
    let running = Running { controller: "toy-controller", clock, metrics: Metrics::new() };
    let ended = match sync(&*toy, &"a".to_owned(), &running, &CancellationToken::new(), || {}).await {
        Synced::Done { requeue_after: None } => "done".to_owned(),
        Synced::Done { requeue_after: Some(after) } => format!("done, again after {after:?}"),
        Synced::Stopped => "stopped".to_owned(),
        Synced::Behind(at_most) => format!("behind for {at_most:?}"),
        Synced::Failed { error, requeue_after: None } => error.to_string(),
        Synced::Failed { error, requeue_after: Some(after) } => format!("{error}, again after {after:?}"),
    };
    (ended, toy.happened()[1..].to_vec())
}

#[tokio::test]
async fn policy_is_asked_until_it_is_done_and_absorbs_what_came_of_each_step() {
    let plans = vec![Plan::step(Step::Succeeds), Plan::step(Step::Succeeds)];
    let (ended, happened) = synced(Sight::Plans(plans)).await;
    assert_eq!(ended, "done");
    assert_eq!(happened, [Absorbed("done"), Absorbed("done"), Finished(Ok(()))]);
}

#[tokio::test]
async fn a_failed_step_ends_the_sync_or_is_put_before_policy() {
    use Step::{Fails, Succeeds};
    let failed = "the step failed";
    for (on_failure, then, absorbed) in [
        (OnFailure::Stop, Succeeds, &["failed", "skipped"][..]),
        (OnFailure::PlanAgain, Succeeds, &["failed", "skipped", "done", "done"]),
    ] {
        let plans = vec![
            batch([Fails, Succeeds], Pace::InOrder, on_failure),
            batch([then, then], Pace::InOrder, OnFailure::Stop),
        ];
        let (ended, happened) = synced(Sight::Plans(plans)).await;
        assert_eq!(ended, failed, "{on_failure:?}");
        let mut expected: Vec<_> = absorbed.iter().copied().map(Absorbed).collect();
        expected.push(Finished(Err(failed.to_owned())));
        assert_eq!(happened, expected, "{on_failure:?}");
    }
}

#[tokio::test]
async fn there_is_nothing_to_finish_where_nothing_was_begun() {
    let at_most = Duration::from_secs(7);
    assert_eq!(synced(Sight::Behind(at_most)).await, ("behind for 7s".to_owned(), vec![]));
    assert_eq!(synced(Sight::Nothing).await, ("done".to_owned(), vec![Finished(Ok(()))]));
    let (ended, happened) = synced(Sight::Unreadable).await;
    assert_eq!((ended, happened.len()), ("a can't be read".to_owned(), 1));
}

#[tokio::test]
async fn a_policy_that_is_never_done_is_an_error_that_names_the_controller() {
    let (ended, happened) = synced(Sight::Endless).await;
    assert_eq!(ended, format!("toy-controller is not done with a after planning {MAX_ROUNDS} times"));
    assert_eq!(happened.len(), MAX_ROUNDS + 1);
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_panics_has_an_end_too() {
    let mut rig = Rig::new([step(Step::Panics), Sight::Nothing]);
    rig.run();
    rig.queue.add("a".into());
    rig.observed(2).await;
    assert_eq!(rig.toy.happened()[1], Finished(Err("panic: the step panicked".to_owned())));
    rig.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_end_cannot_be_told_comes_again_too() {
    let mut rig = Rig::new([Sight::Nothing]);
    rig.run();
    rig.queue.add("trap".into());
    rig.observed(3).await;
    rig.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_comes_again_when_policy_wants_it_also_after_a_failure_whose_back_off_is_longer() {
    let failed = batch([Step::Fails], Pace::InOrder, OnFailure::PlanAgain);
    let wants = |seconds| Plan::Done { requeue_after: Some(Duration::from_secs(seconds)) };
    let sights = |seconds| [Sight::Plans(vec![failed.clone(), wants(seconds)]), Sight::Nothing];
    for (seconds, expected) in [(2, 2.0), (100, 60.0)] {
        let toy = Toy::new(sights(seconds));
        let back_off = ItemExponential::new(Duration::from_secs(60), Duration::from_secs(60));
        let queue = WorkQueue::new(QueueConfig::new("toys").limiter(OncePerWindow::new(back_off)));
        let loops = vec![QueueLoop::new(Arc::clone(&toy), queue.clone()).into()];
        let mut rig = Rig::of(toy, queue, loops);
        rig.run();
        rig.queue.add("a".into());
        rig.observed(2).await;
        assert_eq!(rig.toy.observed_at()[1].round(), expected, "{seconds}");
        rig.stop().await.unwrap();
    }
    let toy = Toy::new(sights(2));
    let loops =
        vec![PeriodicLoop::new(Arc::clone(&toy), "all toys".to_owned(), Duration::from_secs(20)).into()];
    let mut rig = Rig::of(toy, WorkQueue::new(QueueConfig::new("unused")), loops);
    rig.run();
    rig.observed(2).await;
    assert_eq!(rig.toy.observed_at()[1].round(), 2.0, "of a periodic loop");
    rig.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_by_the_servers_fault_is_never_given_up_and_comes_again_within_seconds() {
    let mut rig = Rig::new([step(Step::Throttled)]);
    rig.run();
    rig.queue.add("a".into());
    // Far more often than the loop retries a key that fails by itself.
    rig.observed(40).await;
    let times = rig.toy.observed_at();
    let waits: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]).round()).collect();
    assert!(waits.iter().all(|wait| *wait <= 10.0), "{waits:?}");
    assert_eq!(waits[30..], [10.0; 9], "and not at once, either");
    assert_eq!(rig.metric("steersman_controller_dropped_keys_total", "toy-controller"), 0.0);
    rig.stop().await.unwrap();
}

#[test]
fn only_some_failures_are_the_servers_fault() {
    let refused = |code, reason: &str| {
        let status = Box::new(Status::failure(code, reason, ""));
        SyncError::Refused { what: "creating pod a/b".to_owned(), status }
    };
    let (what, why) = ("creating pod a/b".to_owned(), "connection refused".to_owned());
    for (error, expected) in [
        (SyncError::Unknown { what: what.clone(), why: why.clone() }, true),
        (SyncError::Unreachable { what: what.clone(), why }, true),
        (refused(401, "Unauthorized"), true),
        (refused(429, "TooManyRequests"), true),
        (refused(500, ""), true),
        (refused(503, "ServiceUnavailable"), true),
        (refused(504, "Timeout"), true),
        (refused(500, "InternalError"), false),
        (refused(403, "Forbidden"), false),
        (refused(409, "Conflict"), false),
        (SyncError::Fenced { what: what.clone() }, false),
        (SyncError::Abandoned { what: what.clone() }, false),
        (SyncError::Unreadable(what.clone()), false),
        (SyncError::Failed(what), false),
    ] {
        assert_eq!(error.is_servers_fault(), expected, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_counted_and_the_key_comes_again_after_its_back_off() {
    let mut rig = Rig::new([step(Step::Panics), step(Step::Panics), step(Step::Succeeds)]);
    rig.queue.add("a".into());
    assert_eq!(rig.metric("steersman_controller_panics_total", "toy-controller"), 0.0);
    rig.run();
    rig.observed(3).await;
    let at = rig.toy.observed_at();
    assert!((0.005..0.01).contains(&at[1]) && (0.015..0.02).contains(&at[2]), "{at:?}");
    assert_eq!(rig.metric("steersman_controller_panics_total", "toy-controller"), 2.0);
    assert_eq!(rig.metric("steersman_controller_syncs_total", "failed"), 2.0);
    assert_eq!(rig.metric("steersman_controller_syncs_total", "synced"), 1.0);
    assert_eq!(rig.metric("steersman_controller_sync_busy_seconds", "toy-controller"), 3.0);
    assert_eq!(rig.queue.retries(&"a".into()), 0, "its back-off is forgotten");
    rig.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_fifteen_failures_a_key_waits_for_its_next_event() {
    let mut rig = Rig::new([step(Step::Fails)]);
    rig.run();
    rig.queue.add("a".into());
    rig.observed(16).await;
    sleep(Duration::from_secs(100_000)).await;
    assert_eq!(rig.toy.observed_at().len(), 16, "one look, and fifteen more after failures");
    assert_eq!(rig.metric("steersman_controller_dropped_keys_total", "toy-controller"), 1.0);
    rig.queue.add("a".into());
    rig.observed(18).await;
    let at = rig.toy.observed_at();
    assert!(at[17] - at[16] < 0.1, "its back-off begins anew: {at:?}");
    rig.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_queue_may_be_told_never_to_give_up() {
    let mut rig = Rig::with([step(Step::Fails)], |queue| queue.give_up(GiveUp::Never));
    rig.run();
    rig.queue.add("a".into());
    rig.observed(20).await;
    assert_eq!(rig.metric("steersman_controller_dropped_keys_total", "toy-controller"), 0.0);
    rig.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_cache_is_behind_waits_without_back_off_until_it_is_woken_or_its_time_is_up() {
    let behind = Sight::Behind(Duration::from_secs(30));
    let mut rig = Rig::new([behind.clone(), behind, Sight::Nothing]);
    rig.run();
    rig.queue.add("a".into());
    rig.observed(1).await;
    assert_eq!((rig.queue.parked_len(), rig.queue.len()), (1, 0));
    sleep(Duration::from_secs(5)).await;
    rig.queue.wake(&"a".into());
    rig.observed(3).await;
    let at = rig.toy.observed_at();
    assert!((5.0..5.1).contains(&at[1]), "woken: {at:?}");
    assert!((30.0..30.1).contains(&at[2]), "the time runs from the first park on: {at:?}");
    assert_eq!(rig.metric("steersman_controller_syncs_total", "behind"), 2.0);
    assert_eq!(rig.queue.retries(&"a".into()), 0);
    rig.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_comes_again_when_policy_wants_it() {
    let later = Plan::Done { requeue_after: Some(Duration::from_secs(60)) };
    let mut rig = Rig::new([Sight::Plans(vec![later]), Sight::Nothing]);
    rig.run();
    rig.queue.add("a".into());
    rig.observed(2).await;
    assert!((60.0..60.1).contains(&rig.toy.observed_at()[1]));
    rig.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_periodic_loop_syncs_at_once_and_then_so_long_after_each_end() {
    let toy = Toy::new([
        step(Step::Takes(Duration::from_secs(5))),
        step(Step::Panics),
        step(Step::Fails),
        Sight::Plans(vec![Plan::Done { requeue_after: Some(Duration::from_secs(2)) }]),
        Sight::Nothing,
    ]);
    let period = Duration::from_secs(20);
    let loops = vec![PeriodicLoop::new(Arc::clone(&toy), "all toys".to_owned(), period).into()];
    let mut rig = Rig::of(toy, WorkQueue::new(QueueConfig::new("unused")), loops);
    rig.run();
    rig.observed(6).await;
    let at: Vec<_> = rig.toy.observed_at().iter().map(|at| at.round()).collect();
    assert_eq!(at, [0.0, 25.0, 45.0, 65.0, 67.0, 87.0]);
    rig.stop().await.unwrap();
}
