//! When a pod must leave its node, as the node's taints and the pod's tolerations say.

use std::time::Duration;

use steersman_informer::Interned;
use steersman_kinds::scheduling::Toleration;
use tokio::time::Instant;

/// A taint of a node with the effect `NoExecute`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoExecuteTaint {
    /// The taint's key.
    pub key: Interned,
    /// The taint's value.
    pub value: Interned,
    /// When tolerations of the taint begin to run out, at the earliest.
    pub since: Since,
}

/// An instant that may lie before the machine's monotonic clock began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// An instant at which the state was seen.
    pub seen: Instant,
    /// For how long the state had lasted by then.
    pub age: Duration,
}

/// When a pod must leave its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The node has no taint with the effect `NoExecute`.
    Untainted,
    /// The pod tolerates all taints for ever.
    Stays,
    /// A taint is not tolerated: the pod leaves at once.
    LeavesNow,
    /// The pod tolerates all taints, one of them until this instant.
    LeavesAt(Instant),
}

/// Whether tolerations may compare numbers: the feature gate `TaintTolerationComparisonOperators`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparisons {
    /// `Lt` and `Gt` compare the values as integers.
    On,
    /// `Lt` and `Gt` tolerate nothing.
    Off,
}

impl Since {
    /// A state that began at this instant.
    pub fn instant(seen: Instant) -> Self {
        Self { seen, age: Duration::ZERO }
    }

    /// The instant at which the state has lasted for `span`, or `now` if that is past.
    fn plus(self, span: Duration, now: Instant) -> Instant {
        let rest = span.saturating_sub(self.age);
        // A toleration of more than a century never runs out while this process lives.
        self.seen.checked_add(rest.min(CENTURY)).unwrap_or(now).max(now)
    }

    /// The later of the two beginnings.
    fn later(self, other: Self) -> Self {
        let lead = (other.seen + self.age).checked_duration_since(self.seen + other.age);
        if lead.is_some_and(|lead| !lead.is_zero()) { other } else { self }
    }
}

const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Decides when a pod leaves its node.
///
/// As in upstream's `processPodOnNode`, the first toleration that matches a taint counts. Each taint's time runs from when it
/// was added, or from `bound`, when the pod began to be on the node under these rules, if that is later.
pub fn verdict(
    taints: &[NoExecuteTaint],
    tolerations: &[Toleration],
    bound: Option<Since>,
    comparisons: Comparisons,
    now: Instant,
) -> Verdict {
    if taints.is_empty() {
        return Verdict::Untainted;
    }
    let mut leaves_at = None::<Instant>;
    for taint in taints {
        let used = tolerations.iter().find(|toleration| tolerates(toleration, taint, comparisons));
        let Some(used) = used else { return Verdict::LeavesNow };
        match used.seconds {
            None => {}
            Some(seconds) => {
                let since = bound.map_or(taint.since, |bound| taint.since.later(bound));
                let span = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
                let end = since.plus(span, now);
                leaves_at = Some(leaves_at.map_or(end, |other| other.min(end)));
            }
        }
    }
    leaves_at.map_or(Verdict::Stays, Verdict::LeavesAt)
}

/// Whether a toleration matches a taint with the effect `NoExecute`. Upstream's `ToleratesTaint`.
fn tolerates(toleration: &Toleration, taint: &NoExecuteTaint, comparisons: Comparisons) -> bool {
    (toleration.effect.is_empty() || toleration.effect == "NoExecute")
        && (toleration.key.is_empty() || toleration.key == taint.key)
        && match (&*toleration.operator, comparisons) {
            ("" | "Equal", _) => toleration.value == taint.value,
            ("Exists", _) => true,
            ("Lt", Comparisons::On) => {
                compare(&taint.value, &toleration.value, |taint, tolerated| taint < tolerated)
            }
            ("Gt", Comparisons::On) => {
                compare(&taint.value, &toleration.value, |taint, tolerated| taint > tolerated)
            }
            _ => false,
        }
}

/// Compares two decimal integers, in the one form that upstream accepts. A value of another form does not compare.
fn compare(taint: &str, toleration: &str, holds: fn(i64, i64) -> bool) -> bool {
    let number = |text: &str| text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    match (number(taint), number(toleration)) {
        (Some(taint), Some(toleration)) => holds(taint, toleration),
        _ => false,
    }
}
