//! When a certificate is about to expire, and when to look again. Pure.

use std::time::Duration;

use jiff::Timestamp;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The part of a certificate's life at its end in which it is about to expire. A kubelet that rotates its certificate has
/// replaced it when nine tenths of its life are over, at the latest.
const LAST_PART: u32 = 10;
/// The pause between two looks: half of what is left, within these bounds. The lower one keeps the log readable; the upper
/// one finds a certificate that was replaced by one of a shorter life.
const SHORTEST_PAUSE: Duration = Duration::from_secs(10 * MINUTE.as_secs());
const LONGEST_PAUSE: Duration = DAY;
/// The pause after a certificate has expired.
const PAUSE_AFTER_END: Duration = HOUR;

/// The times between which a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
}

/// How far the end of a certificate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiry {
    /// Not worth a word.
    Far,
    /// In the last part of the certificate's life.
    Near,
    /// The certificate has expired.
    Past,
}

/// How far the end is, and how long until the next look.
pub(super) fn assess(validity: Validity, now: Timestamp) -> (Expiry, Duration) {
    let between =
        |from: Timestamp, to: Timestamp| Duration::try_from(to.duration_since(from)).unwrap_or_default();
    let left = between(now, validity.not_after);
    if left.is_zero() {
        return (Expiry::Past, PAUSE_AFTER_END);
    }
    let last_part = between(validity.not_before, validity.not_after) / LAST_PART;
    let (expiry, next) = match left.checked_sub(last_part) {
        Some(until_near) if !until_near.is_zero() => (Expiry::Far, until_near),
        _ => (Expiry::Near, left / 2),
    };
    (expiry, next.clamp(SHORTEST_PAUSE, LONGEST_PAUSE))
}
