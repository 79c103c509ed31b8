//! The wait after an operation that failed.

use std::time::Duration;

use tokio::time::Instant;

/// The wait after the first failure, as upstream.
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait, as upstream.
const LONGEST: Duration = Duration::from_secs(122);

/// The wait after an operation that failed. It doubles with each failure, up to some two minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    wait: Duration,
    until: Option<Instant>,
}

impl Backoff {
    /// Notes a failure.
    pub(super) fn fail(&mut self, now: Instant) {
        self.wait = if self.wait.is_zero() { FIRST } else { (self.wait * 2).min(LONGEST) };
        self.until = Some(now + self.wait);
    }

    /// Forgets all failures.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// When the operation may be tried again, unless that is now.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }
}
