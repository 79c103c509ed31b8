//! Whether the generator keeps up.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::configuration::GoDuration;

/// When the runtime was last listed; clones tell the same.
#[derive(Clone, Debug)]
pub struct Health {
    last: Arc<Mutex<Option<Instant>>>,
    threshold: Duration,
}

/// Why the generator is not well. Pods should not be synced until it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unhealthy {
    /// No list has succeeded yet.
    #[error("pleg has yet to be successful")]
    NotYet,
    /// The last list that succeeded began too long ago.
    #[error("pleg was last seen active {} ago; threshold is {}", GoDuration(*ago), GoDuration(*threshold))]
    LastSeen {
        /// How long ago.
        ago: Duration,
        /// How long it may be.
        threshold: Duration,
    },
}

impl Health {
    pub(super) fn new(threshold: Duration) -> Self {
        Self { last: Arc::default(), threshold }
    }

    /// Notes that a list succeeded that began at `began`.
    pub(super) fn seen(&self, began: Instant) {
        *self.last.lock() = Some(began);
    }

    /// Whether all is well at `now`.
    ///
    /// # Errors
    /// If no list has succeeded yet, or the last one that did began longer ago than the threshold.
    pub fn check(&self, now: Instant) -> Result<(), Unhealthy> {
        let last = (*self.last.lock()).ok_or(Unhealthy::NotYet)?;
        let ago = now.saturating_duration_since(last);
        if ago > self.threshold {
            return Err(Unhealthy::LastSeen { ago, threshold: self.threshold });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_well_from_the_first_list_until_the_threshold_has_passed() {
        let (health, start) = (Health::new(Duration::from_secs(180)), Instant::now());
        let after = |seconds| health.check(start + Duration::from_secs(seconds));
        assert_eq!(after(600), Err(Unhealthy::NotYet));
        health.seen(start);
        assert_eq!(after(60), Ok(()));
        assert_eq!(after(180), Ok(()));
        let late = after(240).unwrap_err();
        assert_eq!(late.to_string(), "pleg was last seen active 4m0s ago; threshold is 3m0s");
    }
}
