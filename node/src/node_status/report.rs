//! When a status that did not change is written all the same. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// When the status was last written, and when it is next due.
#[derive(Debug, Default)]
pub(super) struct Reports {
    last: Option<Instant>,
    /// The wait until the next one, in seconds.
    wait: f64,
}

impl Reports {
    /// Whether the status is to be written though nothing changed.
    pub(super) fn due(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.saturating_duration_since(last).as_secs_f64() >= self.wait)
    }

    /// The status was written since something had changed, or for the first time: the next is due after `frequency`, more
    /// or less half of it, so that nodes that changed together do not stay together. `random` is between 0 and 1.
    pub(super) fn written_for_change(&mut self, now: Instant, frequency: Duration, random: f64) {
        *self = Self { last: Some(now), wait: frequency.as_secs_f64() * (0.5 + random) };
    }

    /// The status was written since it was due: from now on each `frequency`.
    pub(super) fn written_since_due(&mut self, now: Instant, frequency: Duration) {
        *self = Self { last: Some(now), wait: frequency.as_secs_f64() };
    }

    /// Whether it was ever written.
    pub(super) fn is_first(&self) -> bool {
        self.last.is_none()
    }
}
