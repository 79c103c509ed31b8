//! The nodes of a zone that wait for a taint, and how fast they get it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use steersman_api::ArcStr;
use tokio::time::Instant;

/// A token bucket that holds one token, as upstream's `EvictionRateLimiterBurst`.
#[derive(Clone, Copy, Debug)]
struct Limiter {
    /// Tokens per second; none if this is not positive.
    rate: f32,
    /// When the next token is there.
    next: Instant,
}

/// The nodes of one zone that are to get a taint with the effect `NoExecute`, in the order in which they were added.
#[derive(Debug)]
pub struct TaintQueue {
    limiter: Limiter,
    places: HashMap<ArcStr, (Instant, u64)>,
    order: BTreeMap<(Instant, u64), ArcStr>,
    added: u64,
}

impl Limiter {
    fn take(&mut self, now: Instant) -> bool {
        // The comparison is false for a rate that is no number.
        let is_taken = self.rate > 0.0 && self.next <= now;
        if is_taken {
            let period = Duration::try_from_secs_f64(1.0 / f64::from(self.rate)).unwrap_or(LONGEST);
            self.next = now + period.min(LONGEST);
        }
        is_taken
    }
}

/// Keeps arithmetic on instants from overflowing.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

impl TaintQueue {
    /// An empty queue with a token.
    pub fn new(rate: f32, now: Instant) -> Self {
        let limiter = Limiter { rate, next: now };
        Self { limiter, places: HashMap::new(), order: BTreeMap::new(), added: 0 }
    }

    /// Adds a node, unless it is in the queue.
    pub fn add(&mut self, node: &ArcStr, now: Instant) {
        if !self.places.contains_key(node) {
            self.insert(node, now);
        }
    }

    /// Removes a node that needs no taint.
    pub fn remove(&mut self, node: &str) {
        if let Some(place) = self.places.remove(node) {
            self.order.remove(&place);
        }
    }

    /// Whether no node waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Takes a token for the first node, and removes that node. As in upstream's `Try`, a token is gone also if the first
    /// node must wait still.
    pub fn next(&mut self, now: Instant) -> Option<ArcStr> {
        let (&(at, _), _) = self.order.first_key_value()?;
        if !self.limiter.take(now) || at > now {
            return None;
        }
        let (_, node) = self.order.pop_first()?;
        self.places.remove(&node);
        Some(node)
    }

    /// Adds a node again that got no taint.
    pub fn retry(&mut self, node: &ArcStr, at: Instant) {
        self.remove(node);
        self.insert(node, at);
    }

    /// Changes the rate, as upstream's `SwapLimiter`: without a token unless there was one.
    pub fn set_rate(&mut self, rate: f32, now: Instant) {
        if self.limiter.rate == rate {
            return;
        }
        let had_token = self.limiter.take(now);
        self.limiter = Limiter { rate, next: now };
        if !had_token {
            self.limiter.take(now);
        }
    }

    fn insert(&mut self, node: &ArcStr, at: Instant) {
        self.added += 1;
        self.places.insert(node.clone(), (at, self.added));
        self.order.insert((at, self.added), node.clone());
    }
}
