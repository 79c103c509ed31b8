//! How fast a client may send: a token bucket per client, as client-go's `flowcontrol`.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::Instant};

/// What one client may send.
///
/// The default is the controller manager's: 20 requests a second, 30 at once (`--kube-api-qps`, `--kube-api-burst`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Requests a second in the long run. Zero, negative or not a number: no limit.
    pub qps: f32,
    /// Requests that may be sent at once after a quiet time. Zero counts as one.
    pub burst: u32,
}

impl Limits {
    /// No limit at all; for reflectors, whose requests are few and whose back-off is their own.
    pub const UNLIMITED: Limits = Limits { qps: 0.0, burst: 0 };

    /// A limit of `qps` requests a second with `burst` at once.
    pub const fn new(qps: f32, burst: u32) -> Self {
        Self { qps, burst }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { qps: 20.0, burst: 30 }
    }
}

/// A token bucket that serves its callers in the order they came.
///
/// It starts full. Whoever is dropped while waiting takes no token, and those behind move up.
/// Clones share one bucket. Time is tokio's.
#[derive(Debug, Clone)]
pub struct Limiter {
    bucket: Option<Arc<Bucket>>,
}

/// The bucket in the form of the generic cell rate algorithm: one instant instead of a fractional count, hence exact.
#[derive(Debug)]
struct Bucket {
    /// The time one token takes to come back.
    period: Duration,
    /// How far `full_at` may lie ahead while a token is still to be had: (burst - 1) periods.
    tolerance: Duration,
    /// When the bucket will be full again. The lock is tokio's since it is fair, and is held while waiting: the queue.
    full_at: Mutex<Instant>,
}

/// Longest time between two requests; keeps arithmetic on instants far from overflow.
const LONGEST_PERIOD: Duration = Duration::from_secs(24 * 3600);

impl Limiter {
    /// A full bucket.
    pub fn new(limits: Limits) -> Self {
        if limits.qps.is_nan() || limits.qps <= 0.0 {
            return Self { bucket: None };
        }
        let period = Duration::try_from_secs_f64(1.0 / f64::from(limits.qps))
            .unwrap_or(LONGEST_PERIOD)
            .min(LONGEST_PERIOD);
        let tolerance = period.saturating_mul(limits.burst.saturating_sub(1)).min(LONGEST_PERIOD * 365);
        let full_at = Mutex::new(Instant::now());
        Self { bucket: Some(Arc::new(Bucket { period, tolerance, full_at })) }
    }

    /// Takes a token, waiting for one if need be. Returns how long that took, or `None` where there is no limit.
    pub async fn acquire(&self) -> Option<Duration> {
        let bucket = self.bucket.as_ref()?;
        let asked_at = Instant::now();
        let mut full_at = bucket.full_at.lock().await;
        let due = full_at.checked_sub(bucket.tolerance).unwrap_or(asked_at);
        if due > Instant::now() {
            tokio::time::sleep_until(due).await;
        }
        let now = Instant::now();
        *full_at = (*full_at).max(now) + bucket.period;
        Some(now - asked_at)
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream::FuturesUnordered};

    use super::*;

    /// When each of `callers`, come at once, gets its token, in milliseconds.
    async fn served(limiter: &Limiter, callers: usize) -> Vec<u128> {
        let start = Instant::now();
        let mut waiting: FuturesUnordered<_> = (0..callers)
            .map(|caller| async move {
                limiter.acquire().await;
                (caller, start.elapsed().as_millis())
            })
            .collect();
        let mut served = Vec::new();
        while let Some((caller, at)) = waiting.next().await {
            assert_eq!(caller, served.len(), "first come, first served");
            served.push(at);
        }
        served
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        for (qps, burst, expected) in [
            (10.0, 3, vec![0, 0, 0, 100, 200, 300]),
            (1.0, 1, vec![0, 1000, 2000]),
            (0.5, 1, vec![0, 2000]),
            (10.0, 0, vec![0, 100]),
            (1000.0, 1, vec![0, 1, 2, 3]),
            (0.0, 1, vec![0, 0, 0]),
            (-1.0, 1, vec![0, 0, 0]),
            (f32::NAN, 1, vec![0, 0, 0]),
        ] {
            let limiter = Limiter::new(Limits::new(qps, burst));
            assert_eq!(served(&limiter, expected.len()).await, expected, "{qps} a second, {burst} at once");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_come_back_with_time_but_never_more_than_the_burst() {
        let limiter = Limiter::new(Limits::new(10.0, 3));
        assert_eq!(served(&limiter, 3).await, [0, 0, 0]);
        tokio::time::advance(Duration::from_millis(200)).await;
        assert_eq!(served(&limiter, 3).await, [0, 0, 100]);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(served(&limiter, 4).await, [0, 0, 0, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_takes_no_token_and_those_behind_move_up() {
        let limiter = Limiter::new(Limits::new(1.0, 1));
        limiter.acquire().await;
        let mut first = Box::pin(limiter.acquire());
        let mut second = Box::pin(limiter.acquire());
        assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
        drop(first);
        assert_eq!(second.await, Some(Duration::from_secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_is_told_unless_there_is_no_limit() {
        let limiter = Limiter::new(Limits::new(2.0, 1));
        assert_eq!(limiter.acquire().await, Some(Duration::ZERO));
        assert_eq!(limiter.acquire().await, Some(Duration::from_millis(500)));
        assert_eq!(Limiter::new(Limits::UNLIMITED).acquire().await, None);
    }
}
