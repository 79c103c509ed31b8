//! The runs of fields in a time zone.
//!
//! Between two changes of a zone's offset, a wall clock runs on evenly, and the fields alone decide. So the walk goes from one
//! offset to the next. A time that the clock skips does not come, and a time that the clock shows twice comes twice.

use jiff::Timestamp;
use jiff::civil::datetime;
use jiff::tz::TimeZone;
use steersman_api::Time;

use super::fields::Fields;

/// The last calendar year of a search, counted from the one in which it begins. As Go's `robfig/cron`.
const YEARS: i16 = 5;

/// The first run later than `after`. `None` if there is none up to the end of the fifth calendar year after this one.
pub(super) fn next(fields: &Fields, zone: &TimeZone, after: Time) -> Option<Time> {
    let mut from = stamp(after.seconds() + 1);
    let last_year = zone.to_offset_info(from).offset().to_datetime(from).year() + YEARS;
    loop {
        let offset = zone.to_offset_info(from).offset();
        let change = zone.following(from).next().map(|change| change.timestamp());
        let until = change.unwrap_or(Timestamp::MAX);
        let begin = offset.to_datetime(from);
        if begin.year() > last_year {
            return None;
        }
        let found =
            fields.first(begin, offset.to_datetime(until).min(datetime(last_year, 12, 31, 23, 59, 0, 0)));
        match found.and_then(|found| offset.to_timestamp(found).ok()).filter(|run| *run < until) {
            Some(run) => return Some(run.into()),
            None => from = change?,
        }
    }
}

/// The last run that is later than `base` and not later than `until`.
pub(super) fn last(fields: &Fields, zone: &TimeZone, base: Time, until: Time) -> Option<Time> {
    let mut until = until;
    while until > base {
        let end = stamp(until.seconds());
        let offset = zone.to_offset_info(end).offset();
        let change = zone.preceding(stamp(until.seconds() + 1)).next().map(|change| change.timestamp());
        let begin = change.unwrap_or(Timestamp::MIN).max(stamp(base.seconds() + 1));
        let found = fields.last(offset.to_datetime(begin), offset.to_datetime(end));
        if let Some(run) = found.and_then(|found| offset.to_timestamp(found).ok()) {
            return Some(run.into());
        }
        until = Time::from_seconds(Time::from(begin).seconds() - 1);
    }
    None
}

fn stamp(seconds: i64) -> Timestamp {
    Time::from_seconds(seconds).into()
}
