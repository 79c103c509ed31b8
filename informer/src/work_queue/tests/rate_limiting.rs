use std::num::NonZeroU32;

use proptest::prelude::*;

use crate::work_queue::{
    ItemExponential, MaxOf, OncePerWindow, RateLimiter, TokenBucket, default_controller_rate_limiter,
};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn bucket(qps: u32, burst: u32) -> TokenBucket {
    TokenBucket::new(NonZeroU32::new(qps).unwrap(), NonZeroU32::new(burst).unwrap())
}

#[test]
fn each_failure_of_a_key_doubles_its_wait_up_to_the_cap_until_it_is_forgotten() {
    let limiter = ItemExponential::new(ms(1), SECOND);
    let waits: Vec<_> = (0..12).map(|_| limiter.when(&"a").as_millis()).collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000]);
    assert_eq!((limiter.retries(&"a"), limiter.retries(&"b")), (12, 0));
    assert_eq!(limiter.when(&"b"), ms(1));
    limiter.forget(&"a");
    assert_eq!((limiter.retries(&"a"), limiter.when(&"a")), (0, ms(1)));
}

proptest! {
    #[test]
    fn exponential_waits_never_shrink_and_never_pass_the_cap(
        base in 0..10_000_000_000_u64, cap in 0..u64::MAX, failures in 1..3_000_usize,
    ) {
        let (base, cap) = (Duration::from_nanos(base), Duration::from_nanos(cap));
        let limiter = ItemExponential::new(base, cap);
        let waits: Vec<_> = (0..failures).map(|_| limiter.when(&())).collect();
        prop_assert_eq!(waits[0], base.min(cap));
        prop_assert!(waits.is_sorted());
        prop_assert!(waits.iter().all(|wait| *wait <= cap));
    }
}

#[tokio::test(start_paused = true)]
async fn the_bucket_grants_its_burst_at_once_and_then_reserves_at_its_rate() {
    let bucket = bucket(10, 3);
    let waits: Vec<_> = (0..6).map(|_| bucket.reserve().as_millis()).collect();
    assert_eq!(waits, [0, 0, 0, 100, 200, 300], "what is promised counts against those who come later");
    pass(ms(200)).await;
    assert_eq!(bucket.reserve().as_millis(), 200);
    pass(SECOND * 3_600).await;
    let waits: Vec<_> = (0..4).map(|_| bucket.reserve().as_millis()).collect();
    assert_eq!(waits, [0, 0, 0, 100], "it never holds more than its burst");
}

#[tokio::test(start_paused = true)]
async fn the_longest_of_several_waits_counts() {
    let limiter: MaxOf<&str> =
        MaxOf::new(vec![Box::new(ItemExponential::new(ms(30), SECOND)), Box::new(bucket(10, 1))]);
    let waits: Vec<_> = (0..3).map(|_| limiter.when(&"a").as_millis()).collect();
    assert_eq!(waits, [30, 100, 200]);
    assert_eq!(limiter.retries(&"a"), 3);
    limiter.forget(&"a");
    assert_eq!(limiter.retries(&"a"), 0);
    assert_eq!(MaxOf::new(Vec::new()).when(&"a"), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn failures_within_one_wait_raise_it_by_one_step() {
    let limiter = OncePerWindow::new(ItemExponential::new(ms(100), SECOND * 1_000));
    assert_eq!(limiter.when(&"a"), ms(100));
    for passed in 1..=9 {
        pass(ms(10)).await;
        assert_eq!(limiter.when(&"a"), ms(100 - 10 * passed), "what is left of the wait");
    }
    assert_eq!(limiter.retries(&"a"), 1);
    assert_eq!(limiter.when(&"b"), ms(100), "another key has a wait of its own");
    pass(ms(10)).await;
    assert_eq!((limiter.when(&"a"), limiter.retries(&"a")), (ms(200), 2));
    limiter.forget(&"a");
    assert_eq!((limiter.when(&"a"), limiter.retries(&"a")), (ms(100), 1));
}

#[tokio::test(start_paused = true)]
async fn the_default_is_upstreams() {
    let limiter = default_controller_rate_limiter();
    for failure in 0..30 {
        let expected = (ms(5) * 2_u32.pow(failure.min(20))).min(SECOND * 1_000);
        let wait = limiter.when(&0);
        assert_eq!(wait, expected, "failure {failure}");
        pass(wait).await;
    }
    let limiter = default_controller_rate_limiter();
    let waits: Vec<_> = (0..103).map(|key| limiter.when(&key).as_millis()).collect();
    assert_eq!(waits[..100], [5; 100]);
    assert_eq!(waits[100..], [100, 200, 300]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_that_events_keep_waking_backs_off_no_faster_than_time_passes() {
    let queue = queue();
    queue.add("a");
    look(&queue).unwrap().retry();
    for _ in 0..1_000 {
        queue.add("a");
        look(&queue).unwrap().retry();
    }
    assert_eq!((queue.retries(&"a"), queue.waiting_len()), (1, 1));
    pass(ms(5)).await;
    assert_eq!(look(&queue).unwrap().retry(), ms(10));
    queue.forget(&"a");
    assert_eq!(queue.add_rate_limited("a"), ms(5));
}
