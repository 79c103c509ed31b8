//! Rate limiters: the delay of a key after a failure.

use std::num::NonZeroU32;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Key;

/// Gives the delay of a key that failed. Many workers call it at the same time.
///
/// A limiter remembers a key from its first failure until `forget`, so its caller must call `forget`.
pub trait RateLimiter<K>: Send + Sync {
    /// Counts a failure of the key, and returns its delay from now.
    fn when(&self, key: &K) -> Duration;

    /// Forgets the key's failures: its next failure counts as the first.
    fn forget(&self, key: &K);

    /// The number of the key's failures since it was last forgotten.
    fn retries(&self, key: &K) -> u32;

    /// The number of keys with failures. Zero if the limiter does not count failures.
    fn failing(&self) -> usize {
        0
    }
}

/// Upstream's default for controllers: 5 ms after a key's first failure, doubled with each further one, up to 1,000 s; and for
/// all keys together a bucket of 100 tokens that refills with 10 per second. Unlike upstream's, failures within one delay count
/// [once](OncePerWindow).
pub fn default_controller_rate_limiter<K: Key>() -> impl RateLimiter<K> + 'static {
    const QPS: NonZeroU32 = NonZeroU32::new(10).expect("ten must not be zero");
    const BURST: NonZeroU32 = NonZeroU32::new(100).expect("a hundred must not be zero");
    OncePerWindow::new(MaxOf::new(vec![
        Box::new(ItemExponential::new(Duration::from_millis(5), Duration::from_secs(1_000))),
        Box::new(TokenBucket::new(QPS, BURST)),
    ]))
}

/// The delay after a key's n-th failure is `base * 2^(n-1)`, at most `cap`.
pub struct ItemExponential<K> {
    base: Duration,
    cap: Duration,
    failures: Mutex<HashMap<K, u32>>,
}

impl<K> ItemExponential<K> {
    /// Makes a limiter whose first delay is `base` and whose longest is `cap`.
    pub fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap, failures: Mutex::default() }
    }

    fn delay(&self, earlier_failures: u32) -> Duration {
        // Beyond any cap, and still finite.
        let doublings = i32::try_from(earlier_failures).unwrap_or(i32::MAX).min(1_000);
        let seconds = self.base.as_secs_f64() * 2_f64.powi(doublings);
        Duration::try_from_secs_f64(seconds).map_or(self.cap, |delay| delay.min(self.cap))
    }
}

impl<K: Key> RateLimiter<K> for ItemExponential<K> {
    fn when(&self, key: &K) -> Duration {
        let mut failures = self.failures.lock();
        let count = failures.entry_ref(key).or_insert(0);
        let delay = self.delay(*count);
        *count = count.saturating_add(1);
        delay
    }

    fn forget(&self, key: &K) {
        self.failures.lock().remove(key);
    }

    fn retries(&self, key: &K) -> u32 {
        self.failures.lock().get(key).copied().unwrap_or(0)
    }

    fn failing(&self) -> usize {
        self.failures.lock().len()
    }
}

/// A token bucket for all keys together, by reservation, as in `golang.org/x/time/rate`: if the bucket is empty, a failure
/// reserves a future token, and waits for it.
pub struct TokenBucket {
    qps: f64,
    burst: f64,
    level: Mutex<Level>,
}

struct Level {
    /// The number of tokens at the time `at`, at most the burst. If negative, so many future tokens are reserved.
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    /// Makes a full bucket of `burst` tokens, refilled with `qps` per second.
    pub fn new(qps: NonZeroU32, burst: NonZeroU32) -> Self {
        let burst = f64::from(burst.get());
        Self {
            qps: f64::from(qps.get()),
            burst,
            level: Mutex::new(Level { tokens: burst, at: Instant::now() }),
        }
    }

    /// Takes a token, and returns how long from now it is available.
    pub fn reserve(&self) -> Duration {
        let mut level = self.level.lock();
        let now = Instant::now();
        let earned = now.duration_since(level.at).as_secs_f64() * self.qps;
        level.tokens = (level.tokens + earned).min(self.burst) - 1.0;
        level.at = now;
        Duration::from_secs_f64((-level.tokens / self.qps).max(0.0))
    }
}

impl<K> RateLimiter<K> for TokenBucket {
    fn when(&self, _key: &K) -> Duration {
        self.reserve()
    }

    fn forget(&self, _key: &K) {}

    fn retries(&self, _key: &K) -> u32 {
        0
    }
}

/// The longest delay of several limiters. Each of them counts every failure.
pub struct MaxOf<K> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K> MaxOf<K> {
    /// Combines these limiters. Without any, the delay is zero.
    pub fn new(limiters: Vec<Box<dyn RateLimiter<K>>>) -> Self {
        Self { limiters }
    }
}

impl<K> RateLimiter<K> for MaxOf<K> {
    fn when(&self, key: &K) -> Duration {
        self.limiters.iter().map(|limiter| limiter.when(key)).max().unwrap_or_default()
    }

    fn forget(&self, key: &K) {
        self.limiters.iter().for_each(|limiter| limiter.forget(key));
    }

    fn retries(&self, key: &K) -> u32 {
        self.limiters.iter().map(|limiter| limiter.retries(key)).max().unwrap_or(0)
    }

    fn failing(&self) -> usize {
        self.limiters.iter().map(|limiter| limiter.failing()).max().unwrap_or(0)
    }
}

/// Counts a key's failures within one delay as one failure. They get the rest of that delay, and the inner limiter sees only the
/// first.
///
/// Events that have nothing to do with the failure also trigger syncs of a failing key. If each of those counts
/// (kubernetes/kubernetes#132805), back-off grows faster than time passes: after fifteen events within a second the key waits
/// for a minute and a half.
pub struct OncePerWindow<K, L> {
    inner: L,
    /// When the delay of each failed key ends. Has a key until it is forgotten.
    windows: Mutex<HashMap<K, Instant>>,
}

impl<K, L> OncePerWindow<K, L> {
    /// Wraps a limiter.
    pub fn new(inner: L) -> Self {
        Self { inner, windows: Mutex::default() }
    }
}

impl<K: Key, L: RateLimiter<K>> RateLimiter<K> for OncePerWindow<K, L> {
    fn when(&self, key: &K) -> Duration {
        let mut windows = self.windows.lock();
        let now = Instant::now();
        if let Some(left) = windows.get(key).and_then(|end| end.checked_duration_since(now))
            && !left.is_zero()
        {
            return left;
        }
        let delay = self.inner.when(key);
        windows.insert(key.clone(), super::delaying::moment(now, delay));
        delay
    }

    fn forget(&self, key: &K) {
        self.windows.lock().remove(key);
        self.inner.forget(key);
    }

    fn retries(&self, key: &K) -> u32 {
        self.inner.retries(key)
    }

    fn failing(&self) -> usize {
        self.inner.failing()
    }
}
