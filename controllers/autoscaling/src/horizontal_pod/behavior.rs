//! How fast the number of replicas may change.

use std::time::Duration;

use steersman_kinds::horizontal_pod_autoscaler::{Behavior, ScalingPolicy, ScalingRules};
use tokio::time::Instant;

use super::history::{History, changed_within};

/// The rules of one direction, with all defaults set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rules {
    /// Which of the policies counts.
    pub select: Select,
    /// The policies.
    pub policies: Vec<Policy>,
    /// How far back recommendations count.
    pub window: Duration,
}

/// Which of several policies counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Select {
    /// The one that allows the greatest change.
    Max,
    /// The one that allows the smallest change.
    Min,
    /// None: no change is allowed.
    Disabled,
}

/// A bound of the change within a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// The greatest change.
    pub bound: Bound,
    /// The length of the period.
    pub period: Duration,
}

/// The greatest change within a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// This number of pods.
    Pods(i32),
    /// This percentage of the pods at the period's beginning.
    Percent(i32),
}

/// The rules of both directions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Speed {
    /// The rules of growth.
    pub up: Rules,
    /// The rules of shrinking.
    pub down: Rules,
}

impl Speed {
    /// The rules of a behavior. `window` is the window of shrinking that sets none.
    ///
    /// The API server has set all other defaults; they are set here once more in case that it has not.
    pub(super) fn of(behavior: &Behavior, window: Duration) -> Self {
        const PERIOD: Duration = Duration::from_secs(15);
        let percent = Policy { bound: Bound::Percent(100), period: PERIOD };
        let pods = Policy { bound: Bound::Pods(4), period: PERIOD };
        Self {
            up: Rules::of(behavior.scale_up.as_ref(), &[pods, percent], Duration::ZERO),
            down: Rules::of(behavior.scale_down.as_ref(), &[percent], window),
        }
    }
}

impl Rules {
    fn of(rules: Option<&ScalingRules>, policies: &[Policy], window: Duration) -> Self {
        let Some(rules) = rules else {
            return Self { select: Select::Max, policies: policies.to_vec(), window };
        };
        let select = match &*rules.select_policy {
            "Disabled" => Select::Disabled,
            "Min" => Select::Min,
            _ => Select::Max,
        };
        let own: Vec<Policy> = rules.policies.iter().filter_map(Policy::of).collect();
        let window = rules.stabilization_window_seconds.map_or(window, seconds);
        Self { select, policies: if own.is_empty() { policies.to_vec() } else { own }, window }
    }

    /// The longest period of a policy.
    pub(super) fn longest_period(&self) -> Duration {
        self.policies.iter().map(|policy| policy.period).max().unwrap_or_default()
    }
}

impl Policy {
    fn of(policy: &ScalingPolicy) -> Option<Self> {
        let bound = match &*policy.kind {
            "Pods" => Bound::Pods(policy.value),
            "Percent" => Bound::Percent(policy.value),
            _ => return None,
        };
        Some(Self { bound, period: seconds(policy.period_seconds) })
    }
}

fn seconds(seconds: i32) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// The greatest number of replicas to which these rules of growth allow `current` replicas to grow.
pub(super) fn greatest(current: i32, history: &History, rules: &Rules, now: Instant) -> i32 {
    let allowed = bounds(current, history, rules, now, |start, bound| match bound {
        Bound::Pods(pods) => start.saturating_add(pods),
        // Rounded up, since otherwise few pods could never grow.
        Bound::Percent(percent) => whole((f64::from(start) * (1.0 + f64::from(percent) / 100.0)).ceil()),
    });
    let allowed = match rules.select {
        Select::Disabled => None,
        Select::Min => allowed.min(),
        Select::Max => allowed.max(),
    };
    allowed.unwrap_or(current)
}

/// The least number of replicas to which these rules of shrinking allow `current` replicas to shrink.
pub(super) fn least(current: i32, history: &History, rules: &Rules, now: Instant) -> i32 {
    let allowed = bounds(current, history, rules, now, |start, bound| match bound {
        Bound::Pods(pods) => start.saturating_sub(pods),
        Bound::Percent(percent) => whole(f64::from(start) * (1.0 - f64::from(percent) / 100.0)),
    });
    let allowed = match rules.select {
        Select::Disabled => None,
        Select::Min => allowed.max(),
        Select::Max => allowed.min(),
    };
    allowed.unwrap_or(current)
}

/// What each policy allows. `allowed` gets the number of replicas at the beginning of the policy's period.
fn bounds(
    current: i32,
    history: &History,
    rules: &Rules,
    now: Instant,
    allowed: impl Fn(i32, Bound) -> i32,
) -> impl Iterator<Item = i32> {
    rules.policies.iter().map(move |policy| {
        let added = changed_within(&history.growths, policy.period, now);
        let removed = changed_within(&history.shrinkings, policy.period, now);
        allowed(current.saturating_sub(added).saturating_add(removed), policy.bound)
    })
}

#[allow(clippy::cast_possible_truncation, reason = "the fraction is meant to be cut off")]
fn whole(replicas: f64) -> i32 {
    replicas as i32
}
