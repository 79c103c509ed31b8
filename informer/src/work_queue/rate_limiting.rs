//! How long a key waits after a failure.

use std::num::NonZeroU32;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Key;

/// Says how long a key that failed should wait. Called from many workers at once.
///
/// A limiter remembers a key from its first failure until it is forgotten: whoever asks it must forget.
pub trait RateLimiter<K>: Send + Sync {
    /// Counts a failure of the key; the answer is how long from now it should wait.
    fn when(&self, key: &K) -> Duration;

    /// The key succeeded, or is given up: its next failure counts as the first.
    fn forget(&self, key: &K);

    /// How many failures of the key count, since it was last forgotten.
    fn retries(&self, key: &K) -> u32;
}

/// Upstream's default for controllers: 5 ms for a key's first failure, doubled with each, up to 1,000 s; and for all
/// keys together a bucket of 100 that refills with 10 a second. Unlike upstream's, failures within one wait count
/// [once](OncePerWindow).
pub fn default_controller_rate_limiter<K: Key>() -> impl RateLimiter<K> + 'static {
    const QPS: NonZeroU32 = NonZeroU32::new(10).expect("ten must not be zero");
    const BURST: NonZeroU32 = NonZeroU32::new(100).expect("a hundred must not be zero");
    OncePerWindow::new(MaxOf::new(vec![
        Box::new(ItemExponential::new(Duration::from_millis(5), Duration::from_secs(1_000))),
        Box::new(TokenBucket::new(QPS, BURST)),
    ]))
}

/// A key's n-th failure costs `base * 2^(n-1)`, at most `cap`.
pub struct ItemExponential<K> {
    base: Duration,
    cap: Duration,
    failures: Mutex<HashMap<K, u32>>,
}

impl<K> ItemExponential<K> {
    /// With `base` for the first failure and never more than `cap`.
    pub fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap, failures: Mutex::default() }
    }

    fn delay(&self, earlier_failures: u32) -> Duration {
        // Far beyond any cap, and still a finite number.
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
}

/// A bucket for all keys together, by reservation, as `golang.org/x/time/rate`: who finds it empty takes a token that
/// is yet to come, and waits for it.
pub struct TokenBucket {
    qps: f64,
    burst: f64,
    level: Mutex<Level>,
}

struct Level {
    /// Tokens in the bucket at `at`, at most the burst; below zero, so many are promised.
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens, refilled with `qps` a second.
    pub fn new(qps: NonZeroU32, burst: NonZeroU32) -> Self {
        let burst = f64::from(burst.get());
        Self {
            qps: f64::from(qps.get()),
            burst,
            level: Mutex::new(Level { tokens: burst, at: Instant::now() }),
        }
    }

    /// Takes a token; the answer is how long from now it is there.
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

/// The longest of what several limiters say. Each of them counts every failure.
pub struct MaxOf<K> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K> MaxOf<K> {
    /// Of these; of none, no wait.
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
}

/// Honest back-off: failures of a key that come before its wait is over are one failure. They get what is left of that
/// wait, and the limiter inside hears of none but the first.
///
/// A failing key is also synced by events that have nothing to do with its failure. Where each of those counts
/// (kubernetes/kubernetes#132805), back-off grows faster than time passes: fifteen events within a second, and the key
/// waits for a minute and a half.
pub struct OncePerWindow<K, L> {
    inner: L,
    /// When the wait of each key that failed is over. Holds a key until it is forgotten.
    windows: Mutex<HashMap<K, Instant>>,
}

impl<K, L> OncePerWindow<K, L> {
    /// Around this limiter.
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
}
