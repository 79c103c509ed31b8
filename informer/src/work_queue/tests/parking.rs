use tokio::time::Instant;

use super::*;

const LONG: Duration = Duration::from_secs(30);

/// A queue whose only key is in hand.
fn in_work() -> (WorkQueue<&'static str>, Taken<&'static str>) {
    let queue = queue();
    queue.add("a");
    let taken = look(&queue).unwrap();
    (queue, taken)
}

fn parked() -> WorkQueue<&'static str> {
    let (queue, taken) = in_work();
    taken.park(LONG);
    assert_eq!((queue.parked_len(), queue.len()), (1, 0));
    queue
}

#[tokio::test(start_paused = true)]
async fn a_parked_key_comes_when_woken_at_once_and_without_back_off() {
    let queue = parked();
    pass(ms(100)).await;
    assert!(look(&queue).is_none());
    queue.wake(&"a");
    let taken = look(&queue).unwrap();
    assert!(!taken.park_expired());
    assert_eq!((queue.parked_len(), queue.retries(&"a")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_is_told_of_a_key_that_is_woken() {
    let queue = parked();
    let start = Instant::now();
    let (taken, ()) = tokio::join!(queue.get(), async { queue.wake(&"a") });
    assert_eq!((*taken.unwrap().key(), start.elapsed()), ("a", Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_wake_or_an_add_between_the_look_at_the_cache_and_the_park_is_not_missed() {
    type Event = fn(&WorkQueue<&'static str>);
    let events: [(&str, Event); 3] = [
        ("wake", |queue| queue.wake(&"a")),
        ("add", |queue| queue.add("a")),
        ("both", |queue| {
            queue.add("a");
            queue.wake(&"a");
        }),
    ];
    for (event, happens) in events {
        let (queue, taken) = in_work();
        happens(&queue);
        taken.park(LONG);
        assert_eq!((queue.parked_len(), queue.len()), (0, 1), "{event}");
        look(&queue).unwrap().park(LONG);
        assert_eq!((queue.parked_len(), queue.len()), (1, 0), "{event} counts once");
    }
}

#[tokio::test]
async fn a_wake_asks_for_no_work_on_a_key_that_is_not_parked() {
    let (queue, taken) = in_work();
    queue.wake(&"a");
    taken.finish();
    assert!(look(&queue).is_none(), "its sync had all it needed");
    queue.wake(&"a");
    assert!(look(&queue).is_none(), "no worker waits for it");
    queue.add("a");
    queue.wake(&"a");
    look(&queue).unwrap().park(LONG);
    assert_eq!(queue.parked_len(), 1, "a wake before the hand-out was there for the sync to see");
}

#[tokio::test(start_paused = true)]
async fn any_add_brings_a_parked_key_back() {
    let queue = parked();
    queue.add("a");
    assert_eq!((queue.parked_len(), next(&queue)), (0, Some("a")));

    let queue = parked();
    queue.add_after("a", ms(10));
    pass(ms(10)).await;
    assert_eq!((queue.len(), queue.parked_len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_nobody_wakes_comes_at_its_deadline_and_says_so() {
    let queue = parked();
    let start = Instant::now();
    let taken = queue.get().await.unwrap();
    assert_eq!(start.elapsed(), LONG);
    assert!(taken.park_expired());
}

#[tokio::test(start_paused = true)]
async fn events_do_not_put_off_the_deadline() {
    let queue = parked();
    for _ in 0..29 {
        pass(Duration::from_secs(1)).await;
        queue.add("a");
        let taken = look(&queue).unwrap();
        assert!(!taken.park_expired());
        taken.park(LONG);
    }
    let start = Instant::now();
    let taken = queue.get().await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    assert!(taken.park_expired());
}

#[tokio::test(start_paused = true)]
async fn an_event_just_before_the_park_does_not_put_off_the_deadline_either() {
    let queue = parked();
    pass(LONG / 2).await;
    queue.wake(&"a");
    let taken = look(&queue).unwrap();
    queue.add("a");
    taken.park(LONG);
    look(&queue).unwrap().park(LONG);
    pass(LONG / 2).await;
    assert!(look(&queue).unwrap().park_expired());
}

#[tokio::test(start_paused = true)]
async fn the_deadline_starts_afresh_after_it_was_reported_and_after_any_other_end() {
    type End = fn(&WorkQueue<&'static str>, Taken<&'static str>);
    let ends: [End; 2] = [
        |_, expired| expired.park(LONG),
        |queue, expired| {
            expired.finish();
            queue.add("a");
            look(queue).unwrap().park(LONG);
        },
    ];
    for end in ends {
        let queue = parked();
        pass(LONG).await;
        end(&queue, look(&queue).unwrap());
        pass(LONG - ms(1)).await;
        assert!(look(&queue).is_none());
        pass(ms(1)).await;
        assert!(look(&queue).unwrap().park_expired());
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_key_keeps_the_higher_priority() {
    for (parked_at, added_at, comes_at) in [(5, 0, 5), (0, 5, 5)] {
        let queue: WorkQueue<&str, i32> = WorkQueue::new(QueueConfig::new("test"));
        queue.add_with_priority("a", parked_at);
        look(&queue).unwrap().park(LONG);
        queue.add_with_priority("a", added_at);
        let taken = look(&queue).unwrap();
        assert_eq!(taken.priority(), &comes_at);
        queue.add_with_priority("a", added_at);
        taken.park(LONG);
        assert_eq!(look(&queue).unwrap().priority(), &comes_at, "added before the park");
    }
}

#[tokio::test(start_paused = true)]
async fn shut_down_drops_parked_keys_and_nothing_is_parked_afterwards() {
    let queue = parked();
    queue.add("b");
    let b = look(&queue).unwrap();
    queue.shut_down();
    b.park(LONG);
    queue.wake(&"a");
    pass(LONG).await;
    assert_eq!(queue.parked_len(), 0);
    assert!(queue.get().await.is_none());
}
