//! What an autoscaler remembers between syncs: its recommendations, and its changes of the number of replicas.

use std::time::Duration;

use tokio::time::Instant;

/// A number of replicas that the metrics called for, before any limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recommendation {
    /// The number of replicas.
    pub replicas: i32,
    /// When.
    pub at: Instant,
}

/// A change of the number of replicas by the autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// How many replicas were added or removed.
    pub count: i32,
    /// When.
    pub at: Instant,
}

/// What an autoscaler remembers between syncs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    /// The recommendations, oldest first. Empty before the first sync.
    pub recommendations: Vec<Recommendation>,
    /// The growths. Recorded only for autoscalers with a behavior.
    pub growths: Vec<Change>,
    /// The shrinkings. Recorded only for autoscalers with a behavior.
    pub shrinkings: Vec<Change>,
}

impl History {
    /// Adds a recommendation, and drops those that are older than `window`.
    pub(super) fn recommend(&mut self, replicas: i32, now: Instant, window: Duration) {
        self.recommendations.retain(|earlier| age(earlier.at, now) <= window);
        self.recommendations.push(Recommendation { replicas, at: now });
    }

    /// Records a change from `was` to `is` replicas, and drops those changes in the same direction that are older than
    /// `period`.
    pub(super) fn record(&mut self, was: i32, is: i32, now: Instant, period: Duration) {
        let changes = if is > was { &mut self.growths } else { &mut self.shrinkings };
        changes.retain(|earlier| age(earlier.at, now) <= period);
        changes.push(Change { count: is.saturating_sub(was).saturating_abs(), at: now });
    }
}

/// The sum of the changes that are younger than `period`.
pub(super) fn changed_within(changes: &[Change], period: Duration, now: Instant) -> i32 {
    let recent = changes.iter().filter(|change| age(change.at, now) < period);
    recent.fold(0, |sum, change| sum.saturating_add(change.count))
}

/// How long ago `at` was.
pub(super) fn age(at: Instant, now: Instant) -> Duration {
    now.saturating_duration_since(at)
}
