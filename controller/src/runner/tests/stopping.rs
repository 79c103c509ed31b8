use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_stop_lets_running_syncs_end_and_begins_no_others() {
    let mut rig = Rig::new([step(Step::Takes(Duration::from_secs(8)))]);
    rig.run();
    rig.queue.add("a".into());
    rig.queue.add("b".into());
    rig.observed(1).await;
    rig.stop().await.unwrap();
    assert!((8.0..8.1).contains(&rig.toy.begun.elapsed().as_secs_f64()));
    assert_eq!(rig.toy.absorbed(), ["done"]);
    assert_eq!((rig.toy.observed_at().len(), rig.queue.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_does_not_end_in_time_is_dropped_and_named() {
    let mut rig = Rig::with([step(Step::Hangs)], |queue| queue.workers(3));
    rig.run();
    rig.queue.add("a".into());
    rig.observed(1).await;
    let begun = Instant::now();
    let error = rig.stop().await.unwrap_err().to_string();
    assert_eq!(begun.elapsed(), TIMING.shutdown_timeout);
    let expected = "controller shutdown timeout reached after 10s: still running: toy-controller (worker ";
    assert!(error.starts_with(expected), "{error}");
    assert!(error.ends_with("of toys has been on a for 10s, 10s without progress)"), "{error}");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(Arc::strong_count(&rig.toy), 2, "only the test and the loop itself still hold the toy");
    assert_eq!(rig.metric("running_managed_controllers", "toy-controller"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn controllers_run_again_after_they_were_stopped() {
    let mut rig = Rig::new([Sight::Nothing]);
    for round in 1..=3 {
        rig.stop = CancellationToken::new();
        rig.run();
        rig.queue.add("a".into());
        rig.observed(round).await;
        assert_eq!(rig.metric("running_managed_controllers", "toy-controller"), 1.0);
        rig.stop().await.unwrap();
        assert_eq!(rig.metric("running_managed_controllers", "toy-controller"), 0.0);
    }
}

#[tokio::test(start_paused = true)]
async fn standing_by_throws_away_what_comes_in() {
    let rig = Rig::new([Sight::Nothing]);
    rig.queue.add("a".into());
    rig.queue.add_after("b".into(), Duration::from_secs(5));
    let until = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let (controllers, token) = (rig.controllers.clone(), until.clone());
    tasks.spawn(async move { controllers.stand_by(&token).await });
    sleep(Duration::from_secs(10)).await;
    until.cancel();
    tasks.join_next().await.unwrap().unwrap();
    assert_eq!((rig.queue.len(), rig.queue.waiting_len()), (0, 0));
    assert_eq!(rig.toy.happened(), []);
}

#[tokio::test(start_paused = true)]
async fn health_names_the_worker_that_gets_nothing_done_and_its_key() {
    let steps = [[Step::Takes(Duration::from_secs(50)); 2], [Step::Hangs; 2]].concat();
    let plan = batch(steps, Pace::InOrder, OnFailure::Stop);
    let mut rig = Rig::new([Sight::Plans(vec![plan])]);
    rig.run();
    let threshold = Duration::from_secs(60);
    let stuck = |rig: &Rig| {
        let health = rig.controllers.health();
        health[0].stuck(threshold).map(ToString::to_string).collect::<Vec<_>>()
    };
    rig.queue.add("ns/slow".into());
    sleep(Duration::from_secs(90)).await;
    let busy = &rig.controllers.health()[0].busy;
    assert_eq!((busy.len(), busy[0].running_for.as_secs()), (1, 90));
    assert!(stuck(&rig).is_empty(), "it got a step done 40 seconds ago: {busy:?}");
    sleep(Duration::from_secs(90)).await;
    assert_eq!(stuck(&rig), ["worker 0 of toys has been on ns/slow for 180s, 80s without progress"]);
    rig.stop().await.unwrap_err();
    sleep(Duration::from_secs(1)).await;
    assert!(rig.controllers.health()[0].busy.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_is_started_again_and_one_that_ends_is_not() {
    static STARTS: AtomicUsize = AtomicUsize::new(0);
    let task = TaskLoop::new("sweep", |_stop| async {
        assert!(STARTS.fetch_add(1, Ordering::Relaxed) >= 2, "the first two starts panic");
    });
    let toy = Toy::new([Sight::Nothing]);
    let mut rig = Rig::of(toy, WorkQueue::new(QueueConfig::new("unused")), vec![task.into()]);
    rig.run();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(STARTS.load(Ordering::Relaxed), 3);
    assert_eq!(rig.metric("steersman_controller_panics_total", "toy-controller"), 2.0);
    rig.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_controller_starts_after_one_to_two_intervals() {
    let timing = Timing { start_interval: Duration::from_secs(10), ..TIMING };
    let rig = Rig::new([Sight::Nothing]);
    rig.queue.add("a".into());
    let mut tasks = JoinSet::new();
    let (controllers, stop) = (rig.controllers.clone(), rig.stop.clone());
    tasks.spawn(async move { controllers.run(&stop, timing).await });
    rig.observed(1).await;
    let at = rig.toy.observed_at()[0];
    assert!((10.0..20.1).contains(&at), "{at}");
    rig.stop.cancel();
    tasks.join_next().await.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stopped_sync_begins_no_further_step() {
    let second = Step::Takes(Duration::from_secs(1));
    for (pace, absorbed) in [
        (Pace::InOrder, vec!["done", "skipped", "skipped", "skipped"]),
        (Pace::SlowStart, vec!["done", "skipped", "skipped", "skipped"]),
        (Pace::Together(2), vec!["done", "done", "skipped", "skipped"]),
    ] {
        let plans = vec![batch([second; 4], pace, OnFailure::PlanAgain), Plan::step(Step::Succeeds)];
        let mut rig = Rig::new([Sight::Plans(plans)]);
        rig.run();
        rig.queue.add("a".into());
        rig.observed(1).await;
        rig.stop().await.unwrap();
        assert_eq!(rig.toy.absorbed(), absorbed, "{pace:?}: the step of the next plan is not begun either");
    }
}
