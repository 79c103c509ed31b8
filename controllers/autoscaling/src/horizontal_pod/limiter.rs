//! The delay of autoscalers in the queue.

use std::time::Duration;

use steersman_informer::work_queue::RateLimiter;

/// Delays each key by the period of syncs, whatever has happened to it.
pub(super) struct FixedPeriod(pub Duration);

impl<K> RateLimiter<K> for FixedPeriod {
    fn when(&self, _: &K) -> Duration {
        self.0
    }

    fn forget(&self, _: &K) {}

    fn retries(&self, _: &K) -> u32 {
        1
    }
}
