//! The last failures of a loop.

use std::collections::VecDeque;
use std::fmt::Display;

use jiff::Timestamp;
use parking_lot::Mutex;

/// The number of keys whose last failures are kept.
const KEPT: usize = 10;
/// Maximum length of a key or an error that is kept, in bytes. Keys of objects are shorter, and most errors are.
const LONGEST: usize = 1024;

/// A key that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The key, or the name of a loop that failed outside of a sync. Shortened to 1 KiB.
    pub key: String,
    /// The last error. Shortened to 1 KiB.
    pub error: String,
    /// When the key failed last, by the wall clock.
    pub at: Timestamp,
    /// The number of the key's failures for as long as it has been in this list.
    pub times: u64,
}

/// The ten keys of a loop that failed last, each once.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<VecDeque<Failure>>);

impl Failures {
    pub(super) fn record(&self, key: &impl Display, error: &impl Display, at: Timestamp) {
        let (key, error) = (shortened(key.to_string()), shortened(error.to_string()));
        let mut failures = self.0.lock();
        let earlier = failures.iter().position(|failure| failure.key == key);
        let times = earlier.and_then(|earlier| failures.remove(earlier)).map_or(0, |failure| failure.times);
        failures.truncate(KEPT - 1);
        failures.push_front(Failure { key, error, at, times: times + 1 });
    }

    /// The failures, the last one first.
    pub(super) fn latest(&self) -> Vec<Failure> {
        self.0.lock().iter().cloned().collect()
    }
}

/// The text, cut at the end of a character.
pub(super) fn shortened(mut text: String) -> String {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failures_are_kept_once_for_each_key() {
        let failures = Failures::default();
        for (at, key) in [(1, "a"), (2, "b"), (3, "a")] {
            let at = Timestamp::from_second(at).unwrap();
            failures.record(&key, &format!("error of {key}"), at);
        }
        let latest = failures.latest();
        let told: Vec<_> =
            latest.iter().map(|failure| (&*failure.key, failure.at.as_second(), failure.times)).collect();
        assert_eq!(told, [("a", 3, 2), ("b", 2, 1)]);
        assert_eq!(latest[0].error, "error of a");

        for key in 0..100 {
            failures.record(&key, &"€".repeat(LONGEST), Timestamp::UNIX_EPOCH);
        }
        let latest = failures.latest();
        let keys: Vec<_> = latest.iter().map(|failure| &*failure.key).collect();
        assert_eq!(keys, ["99", "98", "97", "96", "95", "94", "93", "92", "91", "90"]);
        assert_eq!(latest[0].error, "€".repeat(LONGEST / 3), "errors are cut between characters");
    }
}
