use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn a_key_added_many_times_is_handed_out_once_in_the_order_of_first_adds() {
    let queue = queue();
    for key in ["b", "a", "b", "c", "a"] {
        queue.add(key);
    }
    assert_eq!(queue.len(), 3);
    assert_eq!(all(&queue), ["b", "a", "c"]);
    assert!(queue.is_empty());
}

#[tokio::test]
async fn a_key_in_work_goes_to_no_second_worker_and_comes_again_if_it_was_added() {
    let queue = queue();
    queue.add("a");
    let first = look(&queue).unwrap();
    queue.add("a");
    queue.add("a");
    assert!(look(&queue).is_none());
    drop(first);
    assert_eq!(all(&queue), ["a"]);
}

#[tokio::test]
async fn a_key_added_while_in_work_stands_behind_those_queued_before_its_work_ended() {
    let queue = queue();
    queue.add("a");
    let first = look(&queue).unwrap();
    queue.add("a");
    queue.add("b");
    first.finish();
    assert_eq!(all(&queue), ["b", "a"]);
}

#[tokio::test]
async fn work_that_panics_is_done_with() {
    let queue = queue();
    queue.add("a");
    let taken = look(&queue).unwrap();
    catch_unwind(AssertUnwindSafe(move || {
        let _taken = taken;
        panic!("a sync gone wrong");
    }))
    .unwrap_err();
    queue.add("a");
    assert_eq!(next(&queue), Some("a"));
}

#[tokio::test]
async fn the_highest_priority_comes_first_and_equals_in_order() {
    let queue: WorkQueue<&str, i32> = WorkQueue::new(QueueConfig::new("test"));
    for (key, priority) in [("low", -100), ("a", 0), ("b", 0), ("high", 7), ("c", 0)] {
        queue.add_with_priority(key, priority);
    }
    assert_eq!(all(&queue), ["high", "a", "b", "c", "low"]);
}

#[tokio::test]
async fn an_add_at_a_higher_priority_moves_a_key_up_and_at_a_lower_one_nowhere() {
    let queue: WorkQueue<&str, i32> = WorkQueue::new(QueueConfig::new("test"));
    for (key, priority) in [("a", 1), ("b", 1), ("c", 0), ("c", 2), ("a", 0)] {
        queue.add_with_priority(key, priority);
    }
    assert_eq!(all(&queue), ["c", "a", "b"]);
}

#[tokio::test]
async fn the_highest_priority_of_the_adds_during_work_counts_afterwards() {
    let queue: WorkQueue<&str, i32> = WorkQueue::new(QueueConfig::new("test"));
    queue.add("a");
    let first = look(&queue).unwrap();
    queue.add_with_priority("a", 1);
    queue.add_with_priority("a", 3);
    queue.add_with_priority("a", 2);
    queue.add_with_priority("b", 2);
    first.finish();
    assert_eq!(all(&queue), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_keeps_its_priority() {
    let queue: WorkQueue<&str, i32> = WorkQueue::new(QueueConfig::new("test"));
    queue.add_with_priority("a", 5);
    let delay = look(&queue).unwrap().retry();
    assert_eq!(delay, ms(5));
    pass(delay).await;
    assert_eq!(look(&queue).unwrap().priority(), &5);
}

#[tokio::test(start_paused = true)]
async fn waiting_workers_are_woken_one_for_each_key() {
    let queue = queue();
    let mut workers = JoinSet::new();
    for _ in 0..3 {
        let queue = queue.clone();
        workers.spawn(async move { queue.get().await.map(|taken| *taken.key()) });
    }
    tokio::task::yield_now().await;
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    let ends = tokio::time::timeout(ms(1_000), workers.join_all()).await.expect("each must be woken");
    let mut keys: Vec<_> = ends.into_iter().flatten().collect();
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_get_that_is_cancelled_as_it_is_woken_passes_the_key_on() {
    let queue = queue();
    let mut cancelled = Box::pin(queue.get());
    let mut other = Box::pin(queue.get());
    assert!((&mut cancelled).now_or_never().is_none());
    assert!((&mut other).now_or_never().is_none());
    queue.add("a");
    drop(cancelled);
    assert_eq!(other.now_or_never().flatten().unwrap().key(), &"a");
}

#[tokio::test]
async fn workers_that_never_wait_leave_the_thread_to_others() {
    let queue = WorkQueue::<usize>::new(QueueConfig::new("test"));
    (0..10_000).for_each(|key| queue.add(key));
    let worker = queue.clone();
    let mut workers = JoinSet::new();
    workers.spawn(async move { while worker.get().await.is_some() {} });
    tokio::task::yield_now().await;
    assert!((1..10_000).contains(&queue.len()));
}

#[tokio::test]
async fn after_shut_down_the_rest_is_handed_out_and_then_everybody_gets_none() {
    let queue = queue();
    let mut waiting = Box::pin(queue.get());
    assert!((&mut waiting).now_or_never().is_none());
    queue.shut_down();
    assert!(waiting.now_or_never().unwrap().is_none(), "waiting workers are notified");

    let queue = self::queue();
    queue.add("a");
    queue.shut_down();
    queue.add("b");
    assert!(queue.is_shut_down());
    assert_eq!(queue.get().await.unwrap().key(), &"a");
    assert!(queue.get().await.is_none());
}

#[tokio::test]
async fn a_drain_waits_for_what_is_queued_and_in_work_and_comes_again() {
    let queue = queue();
    queue.add("a");
    queue.add("b");
    let a = look(&queue).unwrap();
    queue.add("a");
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!((&mut drain).now_or_never().is_none(), "a is in work and added again, b is queued");
    queue.add("c");
    a.finish();
    assert_eq!(next(&queue), Some("b"));
    assert!((&mut drain).now_or_never().is_none(), "a is queued again");
    let a = look(&queue).unwrap();
    assert!((&mut drain).now_or_never().is_none(), "a is in work again");
    a.finish();
    assert!(drain.now_or_never().is_some());
    assert!(queue.get().await.is_none());
}

#[tokio::test]
async fn a_shut_down_ends_the_wait_for_a_drain() {
    let queue = queue();
    queue.add("a");
    let _stuck = look(&queue).unwrap();
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!((&mut drain).now_or_never().is_none());
    queue.shut_down();
    assert!(drain.now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_longest_running_key_is_named() {
    let queue = queue();
    assert!(queue.longest_running().is_none());
    queue.add("stuck");
    queue.add("quick");
    let start = Instant::now();
    let _stuck = look(&queue).unwrap();
    pass(ms(300)).await;
    let quick = look(&queue).unwrap();
    pass(ms(200)).await;
    assert_eq!(queue.longest_running(), Some(("stuck", start.elapsed())));
    drop(quick);
    assert_eq!(queue.longest_running(), Some(("stuck", ms(500))));
}
