//! Durations as Go reads and writes them: `1h30m`, `500ms`, `0`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration in Go's notation; a string in JSON. Parsing refuses negative durations, since no setting accepts one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub Duration);

impl GoDuration {
    /// A duration of whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

/// Why a text is not a duration. The messages are those of Go's `time` package, except that for negative durations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDuration {
    /// The text is not a sequence of numbers with units, or the duration exceeds Go's 292 years.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number has no unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// Go has no such unit.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unknown unit.
        unit: String,
        /// The whole text.
        text: String,
    },
    /// The duration is negative.
    #[error("duration {0:?} must not be negative")]
    Negative(String),
}

/// The units, each with its length in nanoseconds.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
];

/// The longest duration in nanoseconds, about 292 years: Go keeps them in 64 bits.
const MOST: u128 = i64::MAX as u128;

impl FromStr for GoDuration {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        let invalid = || InvalidDuration::Invalid(text.to_owned());
        let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        if unsigned == "0" {
            return Ok(Self(Duration::ZERO));
        }
        if unsigned.is_empty() {
            return Err(invalid());
        }
        let (mut nanos, mut rest) = (0_u128, unsigned);
        while !rest.is_empty() {
            let number = split_at_first(rest, |c| !c.is_ascii_digit() && c != '.');
            let unit = split_at_first(number.1, |c| c.is_ascii_digit() || c == '.');
            rest = unit.1;
            let (whole, fraction) = number.0.split_once('.').unwrap_or((number.0, ""));
            if whole.len() + fraction.len() == 0 || fraction.contains('.') {
                return Err(invalid());
            }
            if unit.0.is_empty() {
                return Err(InvalidDuration::MissingUnit(text.to_owned()));
            }
            let size = UNITS.iter().find(|(name, _)| *name == unit.0).map(|(_, size)| *size);
            let size = size.ok_or_else(|| InvalidDuration::UnknownUnit {
                unit: unit.0.to_owned(),
                text: text.to_owned(),
            })?;
            let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
            nanos = whole.checked_mul(size).and_then(|more| nanos.checked_add(more)).ok_or_else(invalid)?;
            // 18 digits suffice: even of an hour, later digits are less than a nanosecond.
            let mut digit_size = size;
            for digit in fraction.bytes().take(18) {
                nanos += u128::from(digit - b'0') * digit_size / 10;
                digit_size /= 10;
            }
            if nanos > MOST {
                return Err(invalid());
            }
        }
        if negative && nanos > 0 {
            return Err(InvalidDuration::Negative(text.to_owned()));
        }
        let nanos = u64::try_from(nanos).map_err(|_| invalid())?;
        Ok(Self(Duration::from_nanos(nanos)))
    }
}

/// Splits the text before the first character for which `fits` is true.
fn split_at_first(text: &str, fits: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(fits).unwrap_or(text.len()))
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let (unit, size) = match nanos {
            0 => return f.write_str("0s"),
            1..1_000 => ("ns", 1),
            1_000..1_000_000 => ("µs", 1_000),
            1_000_000..1_000_000_000 => ("ms", 1_000_000),
            _ => ("s", 1_000_000_000),
        };
        let minutes = nanos / (60 * 1_000_000_000);
        if minutes >= 60 {
            write!(f, "{}h", minutes / 60)?;
        }
        if minutes > 0 {
            write!(f, "{}m", minutes % 60)?;
        }
        let rest = if minutes > 0 { nanos % (60 * 1_000_000_000) } else { nanos };
        write!(f, "{}", rest / size)?;
        let fraction = format!("{:0width$}", rest % size, width = size.ilog10() as usize);
        let fraction = fraction.trim_end_matches('0');
        if size > 1 && !fraction.is_empty() {
            write!(f, ".{fraction}")?;
        }
        f.write_str(unit)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        for (text, nanos, written) in [
            ("0", 0, "0s"),
            ("-0", 0, "0s"),
            ("0s", 0, "0s"),
            ("1h30m", 5_400_000_000_000, "1h30m0s"),
            ("500ms", 500_000_000, "500ms"),
            ("1.5s", 1_500_000_000, "1.5s"),
            (".5s", 500_000_000, "500ms"),
            ("5.s", 5_000_000_000, "5s"),
            ("12h", 43_200_000_000_000, "12h0m0s"),
            ("90s", 90_000_000_000, "1m30s"),
            ("1m0.25s", 60_250_000_000, "1m0.25s"),
            ("1us", 1_000, "1µs"),
            ("1.5µs", 1_500, "1.5µs"),
            ("7ns", 7, "7ns"),
            ("+3m", 180_000_000_000, "3m0s"),
            ("1s1h", 3_601_000_000_000, "1h0m1s"),
            ("0.3333333333333333333h", 1_200_000_000_000, "20m0s"),
            ("2562047h47m16.854775807s", i64::MAX as u64, "2562047h47m16.854775807s"),
        ] {
            let read: GoDuration = text.parse().unwrap_or_else(|error| panic!("{error}"));
            if text.starts_with("0.33") {
                assert!(read.0.as_nanos().abs_diff(u128::from(nanos)) < 10, "{text}");
                continue;
            }
            assert_eq!(read.0.as_nanos(), u128::from(nanos), "{text}");
            assert_eq!(read.to_string(), written, "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_told_why() {
        for (text, why) in [
            ("", "time: invalid duration \"\""),
            ("5", "time: missing unit in duration \"5\""),
            ("1h5", "time: missing unit in duration \"1h5\""),
            ("5d", "time: unknown unit \"d\" in duration \"5d\""),
            ("5 s", "time: unknown unit \" s\" in duration \"5 s\""),
            ("h", "time: invalid duration \"h\""),
            (".s", "time: invalid duration \".s\""),
            ("1.2.3s", "time: invalid duration \"1.2.3s\""),
            ("--1s", "time: invalid duration \"--1s\""),
            ("2562047h47m16.854775808s", "time: invalid duration \"2562047h47m16.854775808s\""),
            (
                "99999999999999999999999999999999999999999h",
                "time: invalid duration \"99999999999999999999999999999999999999999h\"",
            ),
            ("-5s", "duration \"-5s\" must not be negative"),
        ] {
            assert_eq!(text.parse::<GoDuration>().unwrap_err().to_string(), why);
        }
    }
}
