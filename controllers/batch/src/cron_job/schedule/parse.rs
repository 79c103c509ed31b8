//! The parser of schedules. It accepts what robfig's `ParseStandard` accepts, and its errors are robfig's.

use jiff::tz::TimeZone;
use steersman_api::{GoDuration, InvalidDuration};

use super::fields::{DayRule, Fields};
use super::zones::Zones;
use super::{Runs, Schedule};

/// A text is no schedule. Says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidSchedule(String);

/// The numbers that a field may have, and the names of its numbers from the least one on.
struct Bounds {
    least: u64,
    greatest: u64,
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { least: 0, greatest: 59, names: &[] };
const HOURS: Bounds = Bounds { least: 0, greatest: 23, names: &[] };
const DAYS: Bounds = Bounds { least: 1, greatest: 31, names: &[] };
const MONTHS: Bounds = Bounds {
    least: 1,
    greatest: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAYS: Bounds =
    Bounds { least: 0, greatest: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// The numbers of a field.
#[derive(Clone, Copy, Default)]
struct Set {
    bits: u64,
    /// Whether a star or a question mark without a step is in the field. `*/2` is none, `*/1` is one.
    star: bool,
}

impl Schedule {
    /// Reads a schedule, such as `30 3 * * mon-fri`, `@daily` or `@every 1h30m`. It is in `zone`, unless the text begins with
    /// `TZ=` or `CRON_TZ=` and the name of another one.
    ///
    /// # Errors
    /// The text is no schedule.
    pub(crate) fn parse(text: &str, zone: &TimeZone, zones: &Zones) -> Result<Self, InvalidSchedule> {
        let fault = |why: &str| Err(InvalidSchedule(why.to_owned()));
        if text.is_empty() {
            return fault("empty spec string");
        }
        let (zone, text) = match text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
            None => (zone.clone(), text),
            Some(rest) => {
                // Go's parser panics here, and Kubernetes makes this error of it.
                let (name, text) = rest.split_once(' ').ok_or_else(|| {
                    let why = "invalid schedule format: runtime error: slice bounds out of range [:-1]";
                    InvalidSchedule(why.to_owned())
                })?;
                let bad = |error| InvalidSchedule(format!("provided bad location {name}: {error}"));
                (zones.load(name).map_err(bad)?, text.trim())
            }
        };
        let runs = match text.strip_prefix("@every ") {
            Some(delay) => Runs::Every(every(text, delay)?),
            None if text.starts_with('@') => Runs::At(described(text)?),
            None => Runs::At(five_fields(text)?),
        };
        Ok(Self { runs, zone })
    }
}

fn every(text: &str, delay: &str) -> Result<i64, InvalidSchedule> {
    let seconds = match delay.parse::<GoDuration>() {
        Ok(GoDuration(delay)) => delay.as_secs(),
        Err(InvalidDuration::Negative(_)) => 0,
        Err(error) => return Err(InvalidSchedule(format!("failed to parse duration {text}: {error}"))),
    };
    Ok(i64::try_from(seconds).unwrap_or(i64::MAX).max(1))
}

fn described(text: &str) -> Result<Fields, InvalidSchedule> {
    five_fields(match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => return Err(InvalidSchedule(format!("unrecognized descriptor: {text}"))),
    })
}

fn five_fields(text: &str) -> Result<Fields, InvalidSchedule> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minutes, hours, days, months, weekdays] = fields[..] else {
        let why = format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" "));
        return Err(InvalidSchedule(why));
    };
    let (minutes, hours) = (field(minutes, &MINUTES)?, field(hours, &HOURS)?);
    let (days, months, weekdays) =
        (field(days, &DAYS)?, field(months, &MONTHS)?, field(weekdays, &WEEKDAYS)?);
    Ok(Fields {
        minutes: minutes.bits,
        hours: hours.bits,
        days: days.bits,
        months: months.bits,
        weekdays: weekdays.bits,
        day: if days.star || weekdays.star { DayRule::Both } else { DayRule::Either },
    })
}

/// A list of ranges. An empty list is a field without numbers, so that the schedule never runs.
fn field(text: &str, bounds: &Bounds) -> Result<Set, InvalidSchedule> {
    let mut all = Set::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let set = range(part, bounds).map_err(InvalidSchedule)?;
        all = Set { bits: all.bits | set.bits, star: all.star | set.star };
    }
    Ok(all)
}

/// `*`, a number, or two numbers with a hyphen; with a step or without.
fn range(text: &str, bounds: &Bounds) -> Result<Set, String> {
    let halves: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = halves[0].split('-').collect();
    let (start, mut end, mut star) = match ends[..] {
        ["*" | "?", ..] => (bounds.least, bounds.greatest, true),
        [one] => (number_or_name(one, bounds)?, number_or_name(one, bounds)?, false),
        [start, end] => (number_or_name(start, bounds)?, number_or_name(end, bounds)?, false),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match halves[..] {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            // `5/10` means `5-59/10`.
            if ends.len() == 1 {
                end = bounds.greatest;
            }
            star &= step <= 1;
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < bounds.least {
        return Err(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.least));
    }
    if end > bounds.greatest {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", bounds.greatest));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    let bits = (start..=end).step_by(step).fold(0, |bits, number| bits | 1 << number);
    Ok(Set { bits, star })
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let names = (bounds.least..).zip(bounds.names);
    let named = names.into_iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| number(text), |(number, _)| Ok(number))
}

/// A number as Go's `strconv.Atoi` reads it.
fn number(text: &str) -> Result<u64, String> {
    let number: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}")
    })?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}
