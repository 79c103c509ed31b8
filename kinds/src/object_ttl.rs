//! How long a kubelet may cache the objects that its pods use, as an annotation of its node tells it.

use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};

use super::annotation;

/// The annotation with that time, in seconds.
pub const OBJECT_TTL: &str = "node.alpha.kubernetes.io/ttl";

/// The value of the annotation [`OBJECT_TTL`]. `None` if the annotation is absent, or its value is not a number as Go's
/// `strconv.Atoi` reads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seconds(pub Option<i64>);

impl Seconds {
    fn parse(value: &str) -> Self {
        Self(value.parse().ok())
    }
}

impl FieldValue for Seconds {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        if let Some(value) = annotation::entry(field, OBJECT_TTL)? {
            *self = Self::parse(value);
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        annotation::pick(deserializer, OBJECT_TTL, Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        for (value, seconds) in [
            ("0", Some(0)),
            ("15", Some(15)),
            ("+15", Some(15)),
            ("015", Some(15)),
            ("-1", Some(-1)),
            ("15s", None),
            (" 15", None),
            ("1_5", None),
            ("0x10", None),
            ("9223372036854775808", None),
            ("", None),
        ] {
            assert_eq!(Seconds::parse(value), Seconds(seconds), "{value:?}");
        }
    }
}
