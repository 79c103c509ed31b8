//! How long a volume that failed is left alone.

use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(2 * 60 + 2);

/// Of one volume: half a second, doubled with each failure, up to two minutes and two seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct BackOff(Option<Failed>);

#[derive(Debug, Clone)]
struct Failed {
    at: Instant,
    wait: Duration,
    why: String,
}

impl BackOff {
    /// Notes a failure.
    pub(super) fn failed(&mut self, now: Instant, why: String) {
        let wait = self.0.as_ref().map_or(FIRST, |before| LONGEST.min(before.wait * 2));
        self.0 = Some(Failed { at: now, wait, why });
    }

    /// Notes a success.
    pub(super) fn succeeded(&mut self) {
        self.0 = None;
    }

    /// How long to wait still, and what failed last; `None` if it may be tried.
    pub(super) fn waits(&self, now: Instant) -> Option<(Duration, &str)> {
        let failed = self.0.as_ref()?;
        let left = (failed.at + failed.wait).checked_duration_since(now).filter(|left| !left.is_zero())?;
        Some((left, &failed.why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_doubles_up_to_two_minutes_and_two_seconds() {
        let mut back_off = BackOff::default();
        let mut waits = Vec::new();
        for _ in 0..10 {
            assert!(back_off.waits(Instant::now()).is_none());
            back_off.failed(Instant::now(), "x".to_owned());
            let (wait, why) = back_off.waits(Instant::now()).unwrap();
            assert_eq!(why, "x");
            waits.push(wait.as_millis());
            tokio::time::advance(wait).await;
        }
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 122_000, 122_000]);
        back_off.succeeded();
        back_off.failed(Instant::now(), "x".to_owned());
        assert_eq!(back_off.waits(Instant::now()).unwrap().0, FIRST);
    }
}
