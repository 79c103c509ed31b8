use super::*;
use crate::work_queue::Retry;

#[tokio::test(start_paused = true)]
async fn the_status_tells_retries_from_keys_that_are_only_delayed() {
    let queue = queue();
    for key in ["queued", "running", "parked", "failed"] {
        queue.add(key);
    }
    queue.add_after("later", ms(10));
    assert_eq!(next(&queue), Some("queued"));
    let running = look(&queue).unwrap();
    look(&queue).unwrap().park(ms(30_000));
    assert_eq!(look(&queue).unwrap().retry(), ms(5));
    queue.add("queued");
    pass(ms(2)).await;

    let status = queue.status(10);
    assert_eq!((status.depth, status.delayed, status.parked, status.failing), (1, 2, 1, 1));
    assert_eq!(status.longest_running, Some(("running", ms(2))));
    assert_eq!(status.retries, [Retry { key: "failed", failures: 1, due_in: ms(3) }]);
    assert_eq!(status.first_parked, [("parked", ms(29_998))]);
    running.finish();

    pass(ms(3)).await;
    assert_eq!(all(&queue), ["queued", "failed"]);
    queue.forget(&"failed");
    let status = queue.status(10);
    assert_eq!((status.depth, status.failing, status.retries), (0, 0, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn the_lists_of_a_status_are_bounded() {
    let queue: WorkQueue<usize> = WorkQueue::new(QueueConfig::new("test"));
    for key in 0..100 {
        queue.add(key);
        let taken = look(&queue).unwrap();
        if key % 2 == 0 {
            taken.retry();
        } else {
            taken.park(ms(60_000));
        }
    }
    let status = queue.status(7);
    assert_eq!((status.retries.len(), status.failing), (7, 50));
    assert_eq!((status.first_parked.len(), status.parked), (7, 50));
}
