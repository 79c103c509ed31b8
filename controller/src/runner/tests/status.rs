use super::*;

fn queue_of(status: &LoopStatus) -> &QueueState {
    match &status.sort {
        LoopSort::Queue(queue) => queue,
        other => panic!("not a queue: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_names_keys_that_fail_with_their_errors() {
    let mut rig = Rig::new([Sight::Unreadable]);
    assert_eq!(rig.controllers.status()[0].stage, Stage::StandingBy);
    rig.run();
    rig.queue.add("ns/bad".into());
    rig.observed(5).await;

    let status = &rig.controllers.status()[0];
    assert_eq!((status.controller, status.stage), ("toy-controller", Stage::Running));
    let of_loop = &status.loops[0];
    let (queue, failure) = (queue_of(of_loop), &of_loop.failures[0]);
    assert_eq!((&*of_loop.name, queue.workers, queue.failing, queue.delayed), ("toys", 1, 1, 1));
    assert_eq!((&*queue.retries[0].key, queue.retries[0].failures), ("ns/bad", 5));
    assert!(queue.retries[0].due_in <= Duration::from_millis(80), "{queue:?}");
    assert_eq!((&*failure.key, &*failure.error, failure.times), ("ns/bad", "ns/bad can't be read", 5));
    assert_eq!(failure.at.as_second(), 0, "by the wall clock of the context");

    rig.stop().await.unwrap();
    assert_eq!(rig.controllers.status()[0].stage, Stage::StandingBy);
}

#[tokio::test(start_paused = true)]
async fn the_status_names_keys_that_wait_for_own_writes() {
    let mut rig = Rig::new([Sight::Behind(Duration::from_secs(30))]);
    rig.run();
    rig.queue.add("ns/behind".into());
    rig.observed(1).await;
    sleep(Duration::from_secs(10)).await;
    let status = &rig.controllers.status()[0];
    let queue = queue_of(&status.loops[0]);
    assert_eq!((queue.parked, queue.failing, &*queue.waiting[0].key), (1, 0, "ns/behind"));
    assert!(queue.waiting[0].at_most < Duration::from_secs(20), "{queue:?}");
    rig.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_status_names_the_worker_that_hangs_and_its_key() {
    let mut rig = Rig::new([step(Step::Hangs)]);
    rig.run();
    rig.queue.add("ns/hung".into());
    rig.observed(1).await;
    sleep(Duration::from_secs(40)).await;
    let status = &rig.controllers.status()[0];
    let of_loop = &status.loops[0];
    let busy = &of_loop.busy[0];
    assert_eq!((of_loop.busy_workers, &*busy.key, busy.silent_for.as_secs()), (1, "ns/hung", 40));
    let longest = queue_of(of_loop).longest_running.expect("a worker must have a key");
    assert_eq!(longest.as_secs(), 40);
    rig.stop().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_panics_of_tasks() {
    let task = TaskLoop::new("sweep", |_stop| async { panic!("as this test wants") });
    let queue = WorkQueue::new(QueueConfig::new("unused"));
    let mut rig = Rig::of(Toy::new([Sight::Nothing]), queue, vec![task.into()]);
    rig.run();
    sleep(Duration::from_millis(2500)).await;
    let status = &rig.controllers.status()[0];
    let failures = &status.loops[0].failures;
    let told: Vec<_> = failures.iter().map(|failure| (&*failure.error, failure.times)).collect();
    assert_eq!(told, [("panic: as this test wants", 3)]);
    rig.stop().await.unwrap();
}
