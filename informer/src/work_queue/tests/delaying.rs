use futures::FutureExt;
use tokio::time::Instant;

use super::*;

/// Takes keys as they come, until the queue has nothing more within a minute; with the milliseconds of each.
async fn timeline(queue: &WorkQueue<&'static str>) -> Vec<(&'static str, u128)> {
    let start = Instant::now();
    let mut seen = Vec::new();
    while let Ok(Some(taken)) = tokio::time::timeout(ms(60_000), queue.get()).await {
        seen.push((*taken.key(), start.elapsed().as_millis()));
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_come_when_they_are_due() {
    type Case = (&'static str, &'static [(&'static str, u64)], &'static [(&'static str, u128)]);
    let cases: &[Case] = &[
        (
            "in the order of their moments",
            &[("a", 30), ("b", 10), ("c", 20)],
            &[("b", 10), ("c", 20), ("a", 30)],
        ),
        ("no delay is now", &[("a", 0)], &[("a", 0)]),
        ("an earlier moment replaces a later one", &[("a", 30), ("a", 10)], &[("a", 10)]),
        ("a later moment replaces nothing", &[("a", 10), ("a", 30)], &[("a", 10)]),
        ("equal moments keep their order", &[("b", 10), ("a", 10)], &[("b", 10), ("a", 10)]),
        ("an immediate add does not cancel a delay", &[("a", 10), ("a", 0)], &[("a", 0), ("a", 10)]),
    ];
    for (rule, adds, expected) in cases {
        let queue = queue();
        for (key, delay) in *adds {
            queue.add_after(key, ms(*delay));
        }
        assert_eq!(timeline(&queue).await, *expected, "{rule}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_queued_when_due_even_if_every_worker_is_busy() {
    let queue = queue();
    queue.add_after("a", ms(10));
    pass(ms(9)).await;
    assert_eq!((queue.len(), queue.waiting_len()), (0, 1));
    pass(ms(1)).await;
    assert_eq!((queue.len(), queue.waiting_len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_falls_due_while_in_work_comes_again() {
    let queue = queue();
    queue.add("a");
    let taken = look(&queue).unwrap();
    queue.add_after("a", ms(10));
    pass(ms(10)).await;
    assert!(look(&queue).is_none());
    taken.finish();
    assert_eq!(next(&queue), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn requeue_after_brings_the_key_again_without_back_off() {
    let queue = queue();
    queue.add("a");
    look(&queue).unwrap().requeue_after(ms(700));
    assert_eq!(queue.retries(&"a"), 0);
    assert_eq!(timeline(&queue).await, [("a", 700)]);
}

#[tokio::test(start_paused = true)]
async fn the_highest_priority_asked_for_holds_when_a_key_falls_due() {
    let queue: WorkQueue<&str, i32> = WorkQueue::new(QueueConfig::new("test"));
    queue.add_after_with_priority("a", ms(30), 4);
    queue.add_after_with_priority("a", ms(10), 2);
    pass(ms(10)).await;
    assert_eq!(look(&queue).unwrap().priority(), &4);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_waits_already_is_in_time_for_an_earlier_key() {
    let queue = queue();
    queue.add_after("late", ms(50_000));
    let start = Instant::now();
    let (first, ()) = tokio::join!(queue.get(), async { queue.add_after("early", ms(10)) });
    assert_eq!((*first.unwrap().key(), start.elapsed()), ("early", ms(10)));
}

#[tokio::test(start_paused = true)]
async fn the_timer_does_not_depend_on_a_worker_that_left() {
    let queue = queue();
    let mut cancelled = Box::pin(queue.get());
    let mut busy = Box::pin(queue.get());
    let mut idle = Box::pin(queue.get());
    for get in [&mut cancelled, &mut busy, &mut idle] {
        assert!(get.now_or_never().is_none());
    }
    queue.add_after("due", ms(10));
    for get in [&mut cancelled, &mut busy, &mut idle] {
        assert!(get.now_or_never().is_none(), "each is told of the new moment, and waits on");
    }
    drop(cancelled);
    queue.add("now");
    let _busy = busy.now_or_never().flatten().unwrap();
    let start = Instant::now();
    let due = tokio::time::timeout(ms(1_000), idle).await.expect("a worker must drive the timer");
    assert_eq!(due.unwrap().key(), &"due");
    assert_eq!(start.elapsed(), ms(10));
}

#[tokio::test(start_paused = true)]
async fn shut_down_drops_what_is_not_yet_due_and_keeps_what_is() {
    let queue = queue();
    queue.add_after("due", ms(10));
    queue.add_after("not due", ms(20));
    pass(ms(15)).await;
    queue.shut_down();
    queue.add_after("too late", ms(1));
    pass(ms(10)).await;
    assert_eq!(all(&queue), ["due"]);
    assert_eq!(queue.waiting_len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_delay_beyond_the_clock_is_kept_without_harm() {
    let queue = queue();
    queue.add_after("a", Duration::MAX);
    pass(Duration::from_secs(365 * 24 * 60 * 60)).await;
    assert_eq!((queue.len(), queue.waiting_len()), (0, 1));
}
