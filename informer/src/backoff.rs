//! Exponential back-off with jitter.

use std::time::Duration;

use rand::Rng;
use tokio::time::Instant;

/// An exponential delay with jitter. It starts again from the first delay after a time without failures, as in client-go's
/// reflector.
#[derive(Debug, Clone)]
pub struct Backoff {
    config: Config,
    /// The delay after the next failure, before jitter.
    next: Duration,
    last_failure: Option<Instant>,
}

/// The configuration of a [`Backoff`].
#[derive(Debug, Clone)]
pub struct Config {
    /// The first delay.
    pub initial: Duration,
    /// The longest delay, before jitter.
    pub cap: Duration,
    /// After this long without a failure, the next failure waits for `initial` again.
    pub reset_after: Duration,
}

/// As client-go's reflector: 800 ms to 30 s, reset after 2 minutes without a failure.
impl Default for Config {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(800),
            cap: Duration::from_secs(30),
            reset_after: Duration::from_secs(120),
        }
    }
}

impl Backoff {
    /// Makes a back-off without failures.
    pub fn new(config: Config) -> Self {
        Self { next: config.initial, config, last_failure: None }
    }

    /// Forgets all failures: the next one waits for the first delay.
    pub fn reset(&mut self) {
        self.next = self.config.initial;
    }

    /// Counts a failure, and returns how long to wait: one to two times the delay, so that many clients that failed together
    /// do not retry together.
    pub fn failed(&mut self) -> Duration {
        let now = Instant::now();
        if self.last_failure.is_some_and(|last| now.duration_since(last) > self.config.reset_after) {
            self.next = self.config.initial;
        }
        self.last_failure = Some(now);
        let delay = self.next;
        self.next = (delay * 2).min(self.config.cap);
        delay.mul_f64(1.0 + rand::rng().random::<f64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_up_to_the_cap_and_begin_anew_after_health() {
        let mut backoff = Backoff::new(Config::default());
        let mut expected = Duration::from_millis(800);
        for _ in 0..10 {
            let delay = backoff.failed();
            assert!((expected..expected * 2).contains(&delay), "{delay:?} for {expected:?}");
            expected = (expected * 2).min(Duration::from_secs(30));
            tokio::time::advance(delay).await;
        }
        tokio::time::advance(Duration::from_secs(121)).await;
        assert!(backoff.failed() < Duration::from_millis(1600));
        backoff.failed();
        backoff.reset();
        assert!(backoff.failed() < Duration::from_millis(1600));
    }

    proptest! {
        #[test]
        fn no_delay_exceeds_twice_the_cap(initial in 1_u64..10_000, cap in 1_u64..100_000, failures in 1_usize..100) {
            let (initial, cap) = (Duration::from_millis(initial), Duration::from_millis(cap.max(initial)));
            let mut backoff = Backoff::new(Config { initial, cap, reset_after: Duration::from_secs(120) });
            for _ in 0..failures {
                let delay = backoff.failed();
                prop_assert!(delay >= initial && delay <= cap * 2);
            }
        }
    }
}
