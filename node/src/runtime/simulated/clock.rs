//! Stamps that follow tokio's clock.

use jiff::Timestamp;
use tokio::time::Instant;

/// The wall's time of tokio's instants, as of when the runtime began. With paused time, stamps stand still as well.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    began: Instant,
    wall: Timestamp,
}

impl Clock {
    pub(super) fn new(wall: Timestamp) -> Self {
        Self { began: Instant::now(), wall }
    }

    pub(super) fn at(self, instant: Instant) -> Timestamp {
        self.wall.saturating_add(instant.saturating_duration_since(self.began)).unwrap_or(Timestamp::MAX)
    }

    /// In nanoseconds since 1970, as the CRI has it.
    pub(super) fn nanos(self, instant: Instant) -> i64 {
        i64::try_from(self.at(instant).as_nanosecond()).unwrap_or(i64::MAX)
    }
}
