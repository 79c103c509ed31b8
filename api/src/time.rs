//! Stamps of the wall clock, as the API writes them.

use std::fmt;
use std::num::NonZeroI64;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A `metav1.Time`: a moment in whole seconds, written `2006-01-02T15:04:05Z`.
///
/// The API drops fractions from most stamps; the few that keep them are `MicroTime`, for which `jiff::Timestamp` serves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since the one before the earliest that can be written. Never zero, so that an `Option` of a stamp, of which
    /// caches hold several an object, takes no more room than a stamp.
    since_origin: NonZeroI64,
}

/// The second before the beginning of year -9999, the earliest that jiff can write.
const ORIGIN: i64 = -377_705_023_202;

impl Time {
    /// From seconds since 1970; moments outside the years -9999 to 9999 become the nearest one within.
    pub fn from_seconds(seconds: i64) -> Self {
        let seconds = seconds.clamp(jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
        let since_origin = NonZeroI64::new(seconds - ORIGIN).expect("the origin must lie before all stamps");
        Self { since_origin }
    }

    /// Seconds since 1970.
    pub fn seconds(self) -> i64 {
        self.since_origin.get() + ORIGIN
    }

    /// What the wall clock says. Policy takes `now` as a parameter; this is for the place that owns the clock.
    pub fn now() -> Self {
        jiff::Timestamp::now().into()
    }

    /// How long ago `earlier` was; zero if it lies ahead.
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
