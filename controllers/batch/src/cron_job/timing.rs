//! When a CronJob's next job is due, and which one is due now.

use std::time::Duration;

use jiff::Timestamp;
use steersman_api::Time;
use steersman_kinds::cron_job::CronJobSpec;

use super::schedule::{InvalidSchedule, Schedule, UnknownZone, Zones};

/// The wait beyond a run, so that clocks that differ a little do not make a sync come too early. Upstream: `nextScheduleDelta`.
const PADDING: Duration = Duration::from_millis(100);
/// The number of missed runs beyond which a warning says so. From upstream.
const MANY: usize = 100;

/// A spec's schedule, or why it has none.
pub(super) type Timetable = Result<Schedule, Fault>;

/// Why a spec has no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// `timeZone` names no time zone.
    #[error(transparent)]
    Zone(#[from] UnknownZone),
    /// `schedule` is no schedule.
    #[error(transparent)]
    Schedule(#[from] InvalidSchedule),
}

/// The run that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The time for which it was scheduled.
    pub run: Time,
    /// Whether so many runs were missed that something may be wrong.
    pub too_many_missed: bool,
}

/// The schedule never comes, such as one for the 31st of February. The message is upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub(super) struct Never;

/// Reads a spec's schedule. A `TZ=` within the schedule, which the API server accepts no more, prevails over `timeZone`.
pub(super) fn timetable(spec: &CronJobSpec, zones: &Zones) -> Timetable {
    let named = spec.time_zone.as_deref().map(|name| zones.load(name)).transpose()?;
    Ok(Schedule::parse(&spec.schedule, named.as_ref().unwrap_or(zones.local()), zones)?)
}

/// Whether the schedule names a time zone itself.
pub(super) fn has_zone(schedule: &str) -> bool {
    schedule.contains("TZ")
}

/// The last run after `base` (the last scheduled run, or the CronJob's creation) that has come, unless it is `deadline` seconds
/// past. Runs before it that were missed are not made up for.
pub(super) fn due(
    schedule: &Schedule,
    base: Time,
    deadline: Option<i64>,
    now: Time,
) -> Result<Option<Due>, Never> {
    let earliest =
        deadline.map_or(base, |seconds| base.max(Time::from_seconds(now.seconds().saturating_sub(seconds))));
    if schedule.next(base, earliest).is_none() {
        return Err(Never);
    }
    let mut missed = schedule.backwards(base, now).take_while(|run| *run > earliest);
    let due = missed.next().map(|run| Due { run, too_many_missed: missed.take(MANY).count() >= MANY });
    Ok(due)
}

/// The wait until the first run after now.
pub(super) fn wait(schedule: &Schedule, base: Time, now: Timestamp) -> Option<Duration> {
    let next = schedule.next(base, now.into())?;
    let wait = Timestamp::from(next).duration_since(now) + jiff::SignedDuration::try_from(PADDING).ok()?;
    Some(wait.unsigned_abs())
}
