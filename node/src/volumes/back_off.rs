//! How long a volume that failed is left alone.

use std::time::Duration;

use tokio::time::Instant;

use super::refusal::Refusal;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(2 * 60 + 2);
/// For a claim that can't be used yet: somebody is about to bind it. Upstream looks again at each sync of the pod, which are
/// ten seconds apart.
const LONGEST_UNPROCESSED: Duration = Duration::from_secs(10);

/// The back-off of one volume: half a second, doubled with each failure, up to two minutes and two seconds, or up to ten
/// seconds while it is not known what the volume stands for.
#[derive(Debug, Clone, Default)]
pub(super) struct BackOff(Option<Failed>);

#[derive(Debug, Clone)]
struct Failed {
    at: Instant,
    wait: Duration,
    why: Refusal,
}

impl BackOff {
    /// Notes a failure.
    pub(super) fn failed(&mut self, now: Instant, why: Refusal) {
        let longest = match why {
            Refusal::Unprocessed(_) => LONGEST_UNPROCESSED,
            Refusal::Unsupported(_) | Refusal::Failed { .. } => LONGEST,
        };
        let wait = self.0.as_ref().map_or(FIRST, |before| longest.min(before.wait * 2));
        self.0 = Some(Failed { at: now, wait, why });
    }

    /// Notes a success.
    pub(super) fn succeeded(&mut self) {
        self.0 = None;
    }

    /// How long to wait still, and what failed last; `None` if it may be tried.
    pub(super) fn waits(&self, now: Instant) -> Option<(Duration, &Refusal)> {
        let failed = self.0.as_ref()?;
        let left = (failed.at + failed.wait).checked_duration_since(now).filter(|left| !left.is_zero())?;
        Some((left, &failed.why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::refusal::Step;

    async fn waits_after(why: Refusal) -> Vec<u128> {
        let mut back_off = BackOff::default();
        let mut waits = Vec::new();
        for _ in 0..10 {
            assert!(back_off.waits(Instant::now()).is_none());
            back_off.failed(Instant::now(), why.clone());
            let (wait, told) = back_off.waits(Instant::now()).unwrap();
            assert_eq!(*told, why);
            waits.push(wait.as_millis());
            tokio::time::advance(wait).await;
        }
        back_off.succeeded();
        back_off.failed(Instant::now(), why);
        assert_eq!(back_off.waits(Instant::now()).unwrap().0, FIRST);
        waits
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_doubles_up_to_two_minutes_and_two_seconds() {
        let expected = [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 122_000, 122_000];
        assert_eq!(waits_after(Refusal::Unsupported("x".to_owned())).await, expected);
        assert_eq!(waits_after(Refusal::failed(Step::SetUp, "v", "x")).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_can_not_be_used_yet_is_read_again_within_ten_seconds() {
        let expected = [500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000, 10_000, 10_000];
        assert_eq!(waits_after(Refusal::Unprocessed("x".to_owned())).await, expected);
    }
}
