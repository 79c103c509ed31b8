//! The rate limit of a client: a token bucket, as in client-go's `flowcontrol`.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::Instant};

tokio::task_local! {
    static WAITS: Arc<Waits>;
}

/// The rate limit of one client.
///
/// The default is the controller manager's: 20 requests per second, 30 at once (`--kube-api-qps`,
/// `--kube-api-burst`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Requests per second on average. Zero, negative or not a number: no limit.
    pub qps: f32,
    /// Maximum number of requests at once after an idle time. Zero counts as one.
    pub burst: u32,
}

impl Limits {
    /// No limit. For reflectors, which send few requests and have their own backoff.
    pub const UNLIMITED: Limits = Limits { qps: 0.0, burst: 0 };

    /// A limit of `qps` requests per second, with `burst` at once.
    pub const fn new(qps: f32, burst: u32) -> Self {
        Self { qps, burst }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { qps: 20.0, burst: 30 }
    }
}

/// A token bucket that serves its callers in the order of their calls.
///
/// It starts full. A caller that is dropped while it waits takes no token. Clones share one bucket. Time is tokio's.
#[derive(Debug, Clone)]
pub struct Limiter {
    bucket: Option<Arc<Bucket>>,
}

/// The bucket as in the generic cell rate algorithm, which keeps an instant instead of a fractional count of tokens,
/// and so is exact.
#[derive(Debug)]
struct Bucket {
    /// The time after which a token comes back.
    period: Duration,
    /// A token is available while `full_at` is at most this far ahead: (burst - 1) periods.
    tolerance: Duration,
    /// When the bucket will be full again. A caller holds the lock while it waits for a token, so the lock is also
    /// the queue of callers: tokio's mutex is fair.
    full_at: Mutex<Instant>,
}

/// Longest time between two requests. Keeps arithmetic on instants from overflowing.
const LONGEST_PERIOD: Duration = Duration::from_secs(24 * 3600);

/// Records whether the calls within one future wait for the rate limit of their client.
///
/// A call that waits for its turn does not hang, however many calls are before it. Whoever looks for calls that hang needs to
/// tell the two apart.
#[derive(Debug, Default)]
pub struct Waits(parking_lot::Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// The number of calls that wait now.
    now: usize,
    /// When the last wait ended.
    ended: Option<Instant>,
}

impl Waits {
    /// The same future, whose calls' waits are recorded.
    pub fn of<F: Future>(self: &Arc<Self>, future: F) -> impl Future<Output = F::Output> + use<F> {
        WAITS.scope(Arc::clone(self), future)
    }

    /// The time since the last call got its turn. Zero while a call waits; `None` before the first call.
    pub fn last(&self) -> Option<Duration> {
        let waiting = self.0.lock();
        if waiting.now > 0 { Some(Duration::ZERO) } else { waiting.ended.map(|ended| ended.elapsed()) }
    }
}

/// One call that waits, until this is dropped.
struct Wait(Arc<Waits>);

impl Wait {
    /// `None` if the call is in no future whose waits are recorded.
    fn begin() -> Option<Self> {
        let waits = WAITS.try_with(Arc::clone).ok()?;
        waits.0.lock().now += 1;
        Some(Self(waits))
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waiting = self.0.0.lock();
        waiting.now -= 1;
        waiting.ended = Some(Instant::now());
    }
}

impl Limiter {
    /// Creates a full bucket.
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

    /// Takes a token, after waiting for one if necessary. Returns how long that took, or `None` if there is no limit.
    pub async fn acquire(&self) -> Option<Duration> {
        let bucket = self.bucket.as_ref()?;
        let _wait = Wait::begin();
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

    /// The times at which `callers` simultaneous callers get their tokens, in milliseconds.
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
    async fn a_caller_that_gives_up_takes_no_token_and_later_callers_move_up() {
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

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waits_for_its_turn_is_told_from_one_that_runs() {
        let limiter = Limiter::new(Limits::new(1.0, 1));
        let waits = Arc::new(Waits::default());
        assert_eq!(waits.last(), None);
        limiter.acquire().await;
        assert_eq!(waits.last(), None, "this call was not in a future whose waits are recorded");

        let second = Duration::from_secs(1);
        let calls = waits.of(async {
            limiter.acquire().await;
            tokio::time::sleep(9 * second).await;
        });
        let looks = async {
            tokio::time::sleep(second / 2).await;
            assert_eq!(waits.last(), Some(Duration::ZERO));
            tokio::time::sleep(3 * second).await;
            assert_eq!(waits.last(), Some(5 * second / 2));
        };
        tokio::join!(calls, looks);

        limiter.acquire().await;
        let given_up = tokio::time::timeout(second / 2, waits.of(limiter.acquire())).await;
        assert!(given_up.is_err());
        tokio::time::sleep(3 * second).await;
        assert_eq!(waits.last(), Some(3 * second), "a call that gives up waits no more");
    }
}
