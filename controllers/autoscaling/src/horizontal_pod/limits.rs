//! The way from what metrics call for to the number of replicas that is set: windows, rates and bounds.

use std::time::Duration;

use steersman_api::condition::ConditionStatus;
use tokio::time::Instant;

use super::behavior::{Rules, Speed, greatest, least};
use super::history::{History, age};
use super::status::Verdict;

/// What the number of replicas may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// The least number.
    pub min: i32,
    /// The greatest number.
    pub max: i32,
}

/// A number of replicas within all limits, and what the conditions say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limited {
    /// The number of replicas.
    pub replicas: i32,
    /// The condition `AbleToScale`.
    pub able: Verdict,
    /// The condition `ScalingLimited`.
    pub limited: Verdict,
}

const READY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const UP: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const DOWN: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const WITHIN: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_FEW: (&str, &str) =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const TOO_MANY: (&str, &str) =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FAST_UP: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const TOO_FAST_DOWN: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");

/// Limits what metrics call for, without rules: no fewer replicas than any recommendation of the last `window`, and at most
/// twice as many as there are, or four. Adds the recommendation to the history.
pub(super) fn without_behavior(
    history: &mut History,
    current: i32,
    desired: i32,
    range: Range,
    window: Duration,
    now: Instant,
) -> Limited {
    let recent = history.recommendations.iter().filter(|earlier| age(earlier.at, now) <= window);
    let stabilized = recent.map(|earlier| earlier.replicas).fold(desired, i32::max);
    history.recommend(desired, now, window);

    let fastest = current.saturating_mul(2).max(4);
    let (most, why) = if range.max > fastest { (fastest, TOO_FAST_UP) } else { (range.max, TOO_MANY) };
    let (replicas, why) = if stabilized < range.min {
        (range.min, TOO_FEW)
    } else if stabilized > most {
        (most, why)
    } else {
        (stabilized, WITHIN)
    };
    Limited::new(replicas, desired, stabilized, DOWN, why)
}

/// Limits what metrics call for by the rules of a behavior. Adds the recommendation to the history.
pub(super) fn with_behavior(
    history: &mut History,
    current: i32,
    desired: i32,
    range: Range,
    speed: &Speed,
    now: Instant,
) -> Limited {
    let recent = |rules: &Rules| {
        let window = rules.window;
        let recommendations = history.recommendations.iter();
        recommendations.filter(move |earlier| age(earlier.at, now) < window).map(|earlier| earlier.replicas)
    };
    let lowest = recent(&speed.up).fold(desired, i32::min);
    let highest = recent(&speed.down).fold(desired, i32::max);
    let stabilized = current.max(lowest).min(highest);
    history.recommend(desired, now, speed.up.window.max(speed.down.window));

    let (replicas, why) = rated(history, current, stabilized, range, speed, now);
    Limited::new(replicas, desired, stabilized, if desired >= current { UP } else { DOWN }, why)
}

/// Limits a number of replicas by the policies and by the range.
fn rated(
    history: &History,
    current: i32,
    desired: i32,
    range: Range,
    speed: &Speed,
    now: Instant,
) -> (i32, (&'static str, &'static str)) {
    if desired > current {
        let fastest = greatest(current, history, &speed.up, now).max(current);
        let (most, why) = if range.max > fastest { (fastest, TOO_FAST_UP) } else { (range.max, TOO_MANY) };
        if desired > most {
            return (most, why);
        }
    } else if desired < current {
        let fastest = least(current, history, &speed.down, now).min(current);
        let (fewest, why) = if range.min < fastest { (fastest, TOO_FAST_DOWN) } else { (range.min, TOO_FEW) };
        if desired < fewest {
            return (fewest, why);
        }
    }
    (desired, WITHIN)
}

impl Limited {
    /// `stabilized` is the number of replicas after windows have had their effect, `why` what bounds `replicas`.
    fn new(
        replicas: i32,
        desired: i32,
        stabilized: i32,
        by_window: (&'static str, &'static str),
        why: (&'static str, &'static str),
    ) -> Self {
        let able = if stabilized == desired { READY } else { by_window };
        let limits = if replicas == stabilized { ConditionStatus::False } else { ConditionStatus::True };
        Self { replicas, able: Verdict::new(ConditionStatus::True, able), limited: Verdict::new(limits, why) }
    }
}
