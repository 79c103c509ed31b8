//! When a pod is looked at again. Pure.

use std::time::Duration;

use super::syncer::SyncFailure;

/// How much jitter adds at most: half of the wait.
const JITTER: f64 = 0.5;

/// How a sync ended, as far as the next one is concerned.
#[derive(Debug, Clone, Copy)]
pub enum Ended<'a> {
    /// The pod went over to its next state: it is looked at without delay.
    NextState,
    /// All is as it should be.
    Well,
    /// It failed, or was cancelled.
    Failed(Option<&'a SyncFailure>),
}

/// The wait until a pod's next sync; `random` is in 0..1. Of failures `back_off`, or what the failure says, but at most the
/// resync interval.
pub fn next_sync(ended: Ended<'_>, resync: Duration, back_off: Duration, random: f64) -> Duration {
    let wait = match ended {
        Ended::NextState => return Duration::ZERO,
        Ended::Well => resync,
        Ended::Failed(failure) => {
            failure.and_then(|failure| failure.retry_in).unwrap_or(back_off).min(resync)
        }
    };
    jitter(wait, random)
}

/// `wait`, or up to half as long again; `random` is in 0..1.
pub fn jitter(wait: Duration, random: f64) -> Duration {
    wait + wait.mul_f64(JITTER * random)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RESYNC: Duration = Duration::from_secs(20);
    const BACK_OFF: Duration = Duration::from_secs(10);

    fn failing(seconds: Option<u64>) -> SyncFailure {
        SyncFailure { retry_in: seconds.map(Duration::from_secs), ..SyncFailure::new("no") }
    }

    #[test]
    fn each_end_has_its_wait() {
        let wait = |ended: Ended<'_>| next_sync(ended, RESYNC, BACK_OFF, 0.0).as_secs();
        assert_eq!(wait(Ended::NextState), 0);
        assert_eq!(wait(Ended::Well), 20);
        assert_eq!(wait(Ended::Failed(None)), 10);
        for (retry, expected) in [(None, 10), (Some(0), 0), (Some(5), 5), (Some(40), 20)] {
            let failure = failing(retry);
            assert_eq!(wait(Ended::Failed(Some(&failure))), expected, "{retry:?}");
        }
        assert_eq!(wait(Ended::Failed(Some(&SyncFailure::network_not_ready("no CNI")))), 1);
    }

    proptest! {
        #[test]
        fn jitter_adds_at_most_half(millis in 0u64..1_000_000, random in 0.0..1.0) {
            let wait = Duration::from_millis(millis);
            let jittered = jitter(wait, random);
            prop_assert!(jittered >= wait && jittered <= wait.mul_f64(1.5));
            prop_assert_eq!(next_sync(Ended::NextState, RESYNC, BACK_OFF, random), Duration::ZERO);
        }
    }
}
