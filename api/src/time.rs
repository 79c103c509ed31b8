//! Timestamps of the API.

use std::fmt;
use std::num::NonZeroI64;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A `metav1.Time`: a timestamp in whole seconds, written `2006-01-02T15:04:05Z`.
///
/// For the few fields of type `metav1.MicroTime`, which keep fractions of seconds, use `jiff::Timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since [`ORIGIN`]. Never zero, so that `Option<Time>` is no larger than `Time`: caches hold several of
    /// them for each object.
    since_origin: NonZeroI64,
}

/// The second before the earliest one that jiff can represent (the beginning of the year -9999), in seconds since 1970.
const ORIGIN: i64 = -377_705_023_202;

impl Time {
    /// Makes a timestamp from seconds since 1970. Clamps it to the years -9999 to 9999.
    pub fn from_seconds(seconds: i64) -> Self {
        let seconds = seconds.clamp(jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
        let since_origin = NonZeroI64::new(seconds - ORIGIN).expect("the origin must lie before all stamps");
        Self { since_origin }
    }

    /// Seconds since 1970.
    pub fn seconds(self) -> i64 {
        self.since_origin.get() + ORIGIN
    }

    /// The current time of the wall clock. Policy functions take `now` as a parameter instead of calling this.
    pub fn now() -> Self {
        jiff::Timestamp::now().into()
    }

    /// The time from `earlier` to this; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_secs(u64::try_from(self.seconds() - earlier.seconds()).unwrap_or(0))
    }
}

impl From<jiff::Timestamp> for Time {
    fn from(stamp: jiff::Timestamp) -> Self {
        Self::from_seconds(stamp.as_second())
    }
}

impl From<Time> for jiff::Timestamp {
    fn from(time: Time) -> Self {
        Self::from_second(time.seconds()).expect("Time must hold a second within jiff's range")
    }
}

impl std::ops::Add<std::time::Duration> for Time {
    type Output = Self;
    fn add(self, span: std::time::Duration) -> Self {
        Self::from_seconds(self.seconds().saturating_add_unsigned(span.as_secs()))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        jiff::Timestamp::from(*self).fmt(f)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        jiff::Timestamp::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_dropped_and_the_text_is_the_apis() {
        let time: Time = serde_json::from_str("\"2026-01-02T03:04:05.678Z\"").unwrap();
        assert_eq!(serde_json::to_string(&time).unwrap(), "\"2026-01-02T03:04:05Z\"");
    }

    #[test]
    fn no_number_of_seconds_panics_and_their_order_is_kept() {
        let times = [i64::MIN, -1, 0, 1, i64::MAX].map(Time::from_seconds);
        assert!(times.is_sorted());
        assert_eq!(times[1].seconds(), -1);
        assert_eq!(times[0].seconds(), jiff::Timestamp::MIN.as_second());
        assert!(times.iter().all(|time| !time.to_string().is_empty()));
    }

    #[test]
    fn a_stamp_that_may_be_absent_takes_eight_bytes() {
        assert_eq!(size_of::<Option<Time>>(), 8);
    }
}
