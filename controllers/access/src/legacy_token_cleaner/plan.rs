//! Which tokens are marked as invalid, and which are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use steersman_api::{ArcStr, ObjectKey, ResourceVersion, Time, Uid};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

/// The state of a round.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The day on which the API server began to track the use of tokens.
    pub tracked_since: Date,
    /// The tokens that may have been made by an old version of Kubernetes.
    pub tokens: Vec<Token>,
    /// The names of the Secrets that pods use, by namespace. `None`: the pods could not be listed.
    pub used: BTreeMap<ArcStr, Option<BTreeSet<String>>>,
    /// Whether the round has marked and deleted what it found.
    pub is_over: bool,
}

/// A Secret with a token, which its service account has in its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub key: ObjectKey,
    pub uid: Uid,
    pub version: ResourceVersion,
    pub created: Option<Time>,
    /// The day of the last use. `None`: the token was not used since the API server tracks uses.
    pub last_used: Option<Date>,
    /// Since when the token is invalid. `None`: it is valid, or the label has no valid date.
    pub invalid_since: Option<Date>,
}

/// An action of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// List the pods of a namespace.
    ListPods(ArcStr),
    /// Mark the token as invalid since this day.
    Mark(Token, Date),
    /// Delete the token.
    Delete(Token),
}

/// Parses a date as labels have it, such as `2026-01-31`. As Go's `time.Parse`.
pub(super) fn date(text: &str) -> Option<Date> {
    let is_digits = |part: &str, length| part.len() == length && part.bytes().all(|b| b.is_ascii_digit());
    let (year, rest) = text.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    if !is_digits(year, 4) || !is_digits(month, 2) || !is_digits(day, 2) {
        return None;
    }
    Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()
}

/// The day in UTC.
fn day(time: Time) -> Date {
    Timestamp::from(time).to_zoned(TimeZone::UTC).date()
}

/// The midnight with which a day begins in UTC.
fn midnight(day: Date) -> Option<Time> {
    day.to_zoned(TimeZone::UTC).ok().map(|midnight| midnight.timestamp().into())
}

/// Marks the tokens that no client has used for `period`, and deletes those that were marked that long ago. Does neither until
/// API servers have tracked the use of tokens for `period`.
pub(super) fn plan(observed: &Observed, period: Duration, now: Time) -> Plan<Step> {
    let seconds = i64::try_from(period.as_secs()).unwrap_or(i64::MAX);
    let before = Time::from_seconds(now.seconds().saturating_sub(seconds));
    let tracked = observed.tracked_since.tomorrow().ok().and_then(midnight);
    if observed.is_over || tracked.is_none_or(|tracked| before.seconds() < tracked.seconds()) {
        return Plan::done();
    }
    let limit = day(before);
    let is_stale = |token: &&Token| {
        token.created.is_none_or(|created| created.seconds() < before.seconds())
            && token.last_used.is_none_or(|last_used| last_used < limit)
    };
    let stale: Vec<&Token> = observed.tokens.iter().filter(is_stale).collect();
    let mut unlisted: Vec<ArcStr> = stale.iter().map(|token| token.key.namespace.clone()).collect();
    unlisted.retain(|namespace| !observed.used.contains_key(namespace));
    unlisted.sort();
    unlisted.dedup();
    if !unlisted.is_empty() {
        return together(unlisted.into_iter().map(Step::ListPods).collect());
    }
    let is_unused = |token: &&Token| {
        let used = observed.used.get(&token.key.namespace).and_then(Option::as_ref);
        used.is_some_and(|used| !used.contains(token.key.name.as_str()))
    };
    let steps = stale.into_iter().filter(is_unused).filter_map(|token| match token.invalid_since {
        None => Some(Step::Mark(token.clone(), day(now))),
        Some(since) if since < limit => Some(Step::Delete(token.clone())),
        Some(_) => None,
    });
    let steps: Vec<Step> = steps.collect();
    if steps.is_empty() { Plan::done() } else { together(steps) }
}

/// Steps of which each is tried, whatever becomes of the others.
fn together(steps: Vec<Step>) -> Plan<Step> {
    Plan::Act(Batch { steps, pace: Pace::Together(1), on_failure: OnFailure::PlanAgain })
}
