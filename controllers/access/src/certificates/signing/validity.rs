//! How long a certificate is good.

use std::time::Duration;

use jiff::Timestamp;
use steersman_api::Time;

/// How far a certificate's beginning lies in the past, for clocks that are behind.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// Certificates of a shorter duration end a full duration from now. Others end as much earlier as they begin.
const SHORT: Duration = Duration::from_secs(8 * 60 * 60);
/// Minimum duration that a request can ask for.
const MIN: Duration = Duration::from_secs(10 * 60);

/// The duration of a certificate for a request that asks for so many seconds.
pub(super) fn duration(expiration_seconds: Option<i32>, max: Duration) -> Duration {
    let Some(seconds) = expiration_seconds else { return max };
    let requested = Duration::from_secs(seconds.try_into().unwrap_or(0));
    if requested > max { max } else { requested.max(MIN) }
}

/// When a certificate is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    /// The first second.
    pub not_before: Time,
    /// The last second.
    pub not_after: Time,
}

impl Validity {
    /// The validity of a certificate that is signed now, by an authority that expires then.
    ///
    /// # Errors
    /// The authority has expired.
    pub(super) fn new(now: Time, duration: Duration, authority_expires: Time) -> Result<Self, String> {
        let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let not_before = Time::from_seconds(now.seconds() - seconds(BACKDATE));
        let backdate = if duration < SHORT { Duration::ZERO } else { BACKDATE };
        let end = now.seconds().saturating_add(seconds(duration)) - seconds(backdate);
        let not_after = Time::from_seconds(end).min(authority_expires);
        if not_before >= authority_expires {
            return Err(format!("the signer has expired: NotAfter={authority_expires}"));
        }
        if now >= authority_expires {
            return Err(format!(
                "refusing to sign a certificate that expired in the past: NotAfter={authority_expires}"
            ));
        }
        Ok(Self { not_before, not_after })
    }
}

/// A time in DER: a UTCTime until 2049, a GeneralizedTime from then on.
pub(super) fn to_der(time: Time) -> Vec<u8> {
    const UTC_TIME: u8 = 23;
    const GENERALIZED_TIME: u8 = 24;
    let utc = Timestamp::from(time).to_zoned(jiff::tz::TimeZone::UTC);
    let (tag, text) = if (1950..2050).contains(&utc.year()) {
        (UTC_TIME, utc.strftime("%y%m%d%H%M%SZ").to_string())
    } else {
        (GENERALIZED_TIME, utc.strftime("%Y%m%d%H%M%SZ").to_string())
    };
    let length = u8::try_from(text.len()).expect("a time must have few characters");
    [&[tag, length], text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 60 * 60;

    fn after(seconds: i64) -> Time {
        Time::from_seconds(1_000_000_000 + seconds)
    }

    #[test]
    fn a_request_may_shorten_the_duration_but_not_below_ten_minutes() {
        for (name, asked, max, expected) in [
            ("nothing asked", None, 24 * HOUR, 24 * HOUR),
            ("shorter", Some(7 * 3600), 24 * HOUR, 7 * HOUR),
            ("as long", Some(24 * 3600), 24 * HOUR, 24 * HOUR),
            ("longer", Some(i32::MAX), 24 * HOUR, 24 * HOUR),
            ("too short", Some(1), 24 * HOUR, HOUR / 6),
            ("negative", Some(-7), 24 * HOUR, HOUR / 6),
            ("longer than a short maximum", Some(60), 30, 30),
            ("as short as a short maximum", Some(30), 30, HOUR / 6),
        ] {
            assert_eq!(duration(asked, Duration::from_secs(max)), Duration::from_secs(expected), "{name}");
        }
    }

    #[test]
    fn a_certificate_begins_five_minutes_ago_and_ends_with_its_authority() {
        let year = 365 * 24 * 3600;
        for (name, duration, authority, expected) in [
            ("long", year, 2 * year, Ok(year - 300)),
            ("short", 3600, year, Ok(3600)),
            ("just short", 8 * 3600 - 1, year, Ok(8 * 3600 - 1)),
            ("not short", 8 * 3600, year, Ok(8 * 3600 - 300)),
            ("beyond the authority", year, 3600, Ok(3600)),
            (
                "an authority that expires now",
                3600,
                0,
                Err("refusing to sign a certificate that expired in the past"),
            ),
            (
                "an authority that expired just now",
                3600,
                -299,
                Err("refusing to sign a certificate that expired in the past"),
            ),
            ("an authority that expired", 3600, -300, Err("the signer has expired")),
        ] {
            let found =
                Validity::new(after(0), Duration::from_secs(duration.try_into().unwrap()), after(authority));
            match expected {
                Ok(end) => {
                    let expected = Validity { not_before: after(-300), not_after: after(end) };
                    assert_eq!(found, Ok(expected), "{name}");
                }
                Err(why) => assert!(found.unwrap_err().starts_with(why), "{name}"),
            }
        }
    }

    #[test]
    fn times_from_2050_on_have_four_digits_of_the_year() {
        let der = |text: &str| to_der(text.parse::<Timestamp>().unwrap().into());
        assert_eq!(der("2049-12-31T23:59:59Z"), [&[23, 13], &b"491231235959Z"[..]].concat());
        assert_eq!(der("2050-01-01T00:00:00Z"), [&[24, 15], &b"20500101000000Z"[..]].concat());
    }
}
