//! The cost of deleting a pod. When an owner scales down, it deletes pods with lower costs first.

use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};

use super::annotation;

/// The annotation with the cost of a pod's deletion.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The value of the annotation [`DELETION_COST`]. Zero if the annotation is absent or invalid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost(pub i32);

impl Cost {
    /// Parses the annotation's value, as upstream's `GetDeletionCostFromPodAnnotations`: a decimal number of 32 bits
    /// without a plus sign and, unless it is negative, without leading zeros. Any other text is zero.
    fn parse(value: &str) -> Self {
        let valid = value == "0" || value.starts_with(|first| first == '-' || ('1'..='9').contains(&first));
        Self(if valid { value.parse().unwrap_or(0) } else { 0 })
    }
}

impl FieldValue for Cost {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        if let Some(value) = annotation::entry(field, DELETION_COST)? {
            *self = Self::parse(value);
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        annotation::pick(deserializer, DELETION_COST, Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_decimal_numbers_of_32_bits_are_costs() {
        for (value, cost) in [
            ("0", 0),
            ("17", 17),
            ("-17", -17),
            ("-0", 0),
            ("-007", -7),
            ("2147483647", i32::MAX),
            ("-2147483648", i32::MIN),
            ("2147483648", 0),
            ("-2147483649", 0),
            ("+10", 0),
            ("008", 0),
            ("00", 0),
            ("", 0),
            ("-", 0),
            (" 1", 0),
            ("1 ", 0),
            ("1_000", 0),
            ("1.5", 0),
            ("0x10", 0),
            ("five", 0),
        ] {
            assert_eq!(Cost::parse(value), Cost(cost), "{value:?}");
        }
    }
}
