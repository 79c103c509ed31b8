//! How far usage may be off its target without effect.

use steersman_api::Quantity;
use steersman_api::quantity::{Amount, ParsedQuantity};
use steersman_kinds::horizontal_pod_autoscaler::{Behavior, ScalingRules};

/// How far the ratio of usage to target may be from 1 without effect, in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerances {
    /// Below 1.
    pub down: f64,
    /// Above 1.
    pub up: f64,
}

impl Tolerances {
    /// The tolerances of an autoscaler with this behavior. `default` holds for a direction that sets none.
    pub(super) fn of(behavior: Option<&Behavior>, default: f64) -> Self {
        let own = |rules: Option<&ScalingRules>| rules.and_then(|rules| rules.tolerance).map(approximate);
        let up = own(behavior.and_then(|behavior| behavior.scale_up.as_ref()));
        let down = own(behavior.and_then(|behavior| behavior.scale_down.as_ref()));
        Self { down: down.unwrap_or(default), up: up.unwrap_or(default) }
    }

    /// Whether a ratio of usage to target has no effect.
    pub(super) fn contain(self, ratio: f64) -> bool {
        (1.0 - self.down) <= ratio && ratio <= (1.0 + self.up)
    }
}

/// The quantity as a float, to the bit as upstream's `AsApproximateFloat64`.
#[allow(clippy::cast_precision_loss, reason = "upstream rounds as well")]
fn approximate(quantity: Quantity) -> f64 {
    let text = quantity.to_string();
    match ParsedQuantity::of(&text).map(|parsed| parsed.amount) {
        Some(Amount::Int64 { value, scale: 0 }) => value as f64,
        Some(Amount::Int64 { value, scale }) => value as f64 * power_of_ten(scale),
        Some(Amount::Billionths(billionths)) => billionths as f64 * power_of_ten(-9),
        None => f64::MAX,
    }
}

/// The float that is nearest to a power of ten, as Go's `math.Pow10`.
fn power_of_ten(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().expect("a power of ten must be a float")
}
