//! The five fields of a schedule, and the times on a wall clock that have them.

use jiff::civil::{Date, DateTime, Time as ClockTime};

/// The minutes, hours, days and months of a schedule: bit `n` of a set stands for the number `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    pub minutes: u64,
    pub hours: u64,
    pub days: u64,
    pub months: u64,
    /// 0 is Sunday.
    pub weekdays: u64,
    /// What a day must be in.
    pub day: DayRule,
}

/// Which of the days of the month and the days of the week decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DayRule {
    /// A day must be in both: one of the two is a star, so that only the other one restricts.
    Both,
    /// A day must be in one of them.
    Either,
}

impl Fields {
    /// The first time with these fields that is neither before `from` nor after `until`.
    pub(super) fn first(&self, from: DateTime, until: DateTime) -> Option<DateTime> {
        // A minute has begun: its beginning is past.
        let from = match (from.second(), from.subsec_nanosecond()) {
            (0, 0) => from,
            _ => from.with().second(0).subsec_nanosecond(0).build().ok()?.checked_add(MINUTE).ok()?,
        };
        let mut date = from.date();
        while date <= until.date() {
            if !has(self.months, date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
                continue;
            }
            if self.has_day(date) {
                let least = if date == from.date() { (from.hour(), from.minute()) } else { (0, 0) };
                if let Some(time) = self.first_time(least) {
                    return Some(date.to_datetime(time)).filter(|found| *found <= until);
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// The last time with these fields that is neither after `until` nor before `from`.
    pub(super) fn last(&self, from: DateTime, until: DateTime) -> Option<DateTime> {
        let mut date = until.date();
        while date >= from.date() {
            if !has(self.months, date.month()) {
                date = date.first_of_month().yesterday().ok()?;
                continue;
            }
            if self.has_day(date) {
                let most = if date == until.date() { (until.hour(), until.minute()) } else { (23, 59) };
                if let Some(time) = self.last_time(most) {
                    return Some(date.to_datetime(time)).filter(|found| *found >= from);
                }
            }
            date = date.yesterday().ok()?;
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let of_month = has(self.days, date.day());
        let of_week = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        match self.day {
            DayRule::Both => of_month && of_week,
            DayRule::Either => of_month || of_week,
        }
    }

    fn first_time(&self, (hour, minute): (i8, i8)) -> Option<ClockTime> {
        if has(self.hours, hour)
            && let Some(minute) = least_from(self.minutes, minute)
        {
            return Some(clock(hour, minute));
        }
        Some(clock(least_from(self.hours, hour + 1)?, least_from(self.minutes, 0)?))
    }

    fn last_time(&self, (hour, minute): (i8, i8)) -> Option<ClockTime> {
        if has(self.hours, hour)
            && let Some(minute) = most_to(self.minutes, minute)
        {
            return Some(clock(hour, minute));
        }
        Some(clock(most_to(self.hours, hour - 1)?, most_to(self.minutes, 59)?))
    }
}

const MINUTE: jiff::SignedDuration = jiff::SignedDuration::from_mins(1);

fn has(set: u64, number: i8) -> bool {
    set & (1 << number) != 0
}

/// The least number of the set from `from` on.
fn least_from(set: u64, from: i8) -> Option<i8> {
    let rest = set & (u64::MAX << from);
    (rest != 0).then(|| small(rest.trailing_zeros()))
}

/// The greatest number of the set up to `to`, which may be -1.
fn most_to(set: u64, to: i8) -> Option<i8> {
    let rest = set & !(u64::MAX << (to + 1));
    (rest != 0).then(|| small(63 - rest.leading_zeros()))
}

fn small(bit: u32) -> i8 {
    i8::try_from(bit).expect("a set must have 64 bits")
}

fn clock(hour: i8, minute: i8) -> ClockTime {
    ClockTime::new(hour, minute, 0, 0).expect("hours and minutes must be within the bounds of their fields")
}
