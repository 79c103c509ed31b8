//! Cron schedules, as the standard parser of Go's `robfig/cron` 3 reads them.
//!
//! ```text
//! text ── parse ──> Fields (bits of minutes, hours, days, months), or a constant delay
//!                      └── walk: the offsets of the time zone, one after the other, and the fields within each
//! ```

mod fields;
mod parse;
#[cfg(test)]
mod tests;
mod walk;
mod zones;

use jiff::tz::TimeZone;
use steersman_api::Time;

pub(super) use parse::InvalidSchedule;
pub(super) use zones::{UnknownZone, Zones};

use fields::Fields;

/// When the jobs of a CronJob are due. Runs are in whole seconds.
///
/// The runs of a fixed delay (`@every`) are counted from a base: the last scheduled run, or the creation of the CronJob. Other
/// runs do not depend on the base.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    runs: Runs,
    zone: TimeZone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Runs {
    /// At the times on the wall clock that have these fields.
    At(Fields),
    /// At the base and each multiple of this number of seconds after it.
    Every(i64),
}

impl Schedule {
    /// The first run after `base` that is later than `after`. `None` if there is none in the next five calendar years.
    pub(super) fn next(&self, base: Time, after: Time) -> Option<Time> {
        let after = after.max(base);
        match &self.runs {
            Runs::At(fields) => walk::next(fields, &self.zone, after),
            Runs::Every(delay) => Some(multiple(base, *delay, passed(base, *delay, after) + 1)),
        }
    }

    /// The last run after `base` that is not later than `until`. `None` if there is none.
    pub(super) fn last(&self, base: Time, until: Time) -> Option<Time> {
        match &self.runs {
            Runs::At(fields) => walk::last(fields, &self.zone, base, until),
            Runs::Every(delay) => {
                let count = passed(base, *delay, until);
                (count > 0).then(|| multiple(base, *delay, count))
            }
        }
    }

    /// The runs after `base` and not later than `until`, the last one first.
    pub(super) fn backwards(&self, base: Time, until: Time) -> impl Iterator<Item = Time> + '_ {
        let before = move |run: &Time| self.last(base, Time::from_seconds(run.seconds() - 1));
        std::iter::successors(self.last(base, until), before)
    }
}

/// How many multiples of `delay` have passed from `base` to `until`.
fn passed(base: Time, delay: i64, until: Time) -> i64 {
    (until.seconds() - base.seconds()).max(0) / delay
}

fn multiple(base: Time, delay: i64, count: i64) -> Time {
    Time::from_seconds(base.seconds().saturating_add(delay.saturating_mul(count)))
}
