//! A budget, as policy sees it.

use steersman_api::Meta;
use steersman_informer::wire::{Group, IntOrString, Object};
use steersman_kinds::pod_disruption_budget::{
    PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus,
};
use steersman_kinds::selector::SelectorSpec;

use super::status::Status;

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    /// The metadata, with the version that `status` is of.
    pub meta: Meta,
    /// How many pods must be healthy.
    pub bound: Bound,
    /// Selects the pods. `None` selects nothing.
    pub selector: Option<SelectorSpec>,
    /// The stored status.
    pub status: Status,
}

/// How many pods must be healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Bound {
    /// At least this number or percentage of the pods.
    MinAvailable(IntOrString),
    /// All but this number or percentage of the pods.
    MaxUnavailable(IntOrString),
    /// The spec has no bound.
    #[default]
    None,
}

impl Budget {
    /// Reads a budget of a cache or an answer, of which the groups of [`SyncedBudget`](super::SyncedBudget) are kept.
    pub(super) fn of(object: &PodDisruptionBudget) -> Self {
        fn group<G: Group<Kind = PodDisruptionBudget>>(object: &PodDisruptionBudget) -> &G {
            G::of(object).expect("the groups that the controller reads must be kept")
        }
        let spec = group::<PodDisruptionBudgetSpec>(object);
        // As upstream, which looks at the second one only if there is no first.
        let bound = match (&spec.max_unavailable, &spec.min_available) {
            (Some(most), _) => Bound::MaxUnavailable(most.clone()),
            (None, Some(least)) => Bound::MinAvailable(least.clone()),
            (None, None) => Bound::None,
        };
        Self {
            meta: object.meta().clone(),
            bound,
            selector: spec.selector.clone(),
            status: Status::of_cached(group::<PodDisruptionBudgetStatus>(object)),
        }
    }
}

impl Bound {
    /// Whether the bound depends on the number of pods that the pods' owners ask for.
    pub(super) fn needs_scale(&self) -> bool {
        matches!(self, Self::MaxUnavailable(_) | Self::MinAvailable(IntOrString::String(_)))
    }

    /// The number of pods that must be healthy if `expected` pods are expected.
    ///
    /// # Errors
    /// The bound is neither a number nor a percentage. The message is upstream's.
    pub(super) fn desired_healthy(&self, expected: i32) -> Result<i32, String> {
        match self {
            Self::MaxUnavailable(most) => Ok(expected.saturating_sub(scaled(most, expected)?).max(0)),
            Self::MinAvailable(least) => scaled(least, expected),
            Self::None => Ok(0),
        }
    }
}

/// A number as it is, a percentage as that part of `total`, rounded up: upstream's `GetScaledValueFromIntOrPercent`.
fn scaled(value: &IntOrString, total: i32) -> Result<i32, String> {
    let text = match value {
        IntOrString::Int(number) => return Ok(*number),
        IntOrString::String(text) => text,
    };
    let invalid = |why: String| format!("invalid value for IntOrString: {why}");
    let number = text
        .strip_suffix('%')
        .ok_or_else(|| invalid("invalid type: string is not a percentage".to_owned()))?;
    let percent: i32 = number.parse().map_err(|_| {
        invalid(format!("invalid value {text:?}: strconv.Atoi: parsing {number:?}: invalid syntax"))
    })?;
    let part = (f64::from(percent) * f64::from(total) / 100.0).ceil();
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the cast saturates, and no budget comes near the limits"
    )]
    Ok(part as i32)
}
