//! The cached fields of leases, in groups.

use steersman_informer::serde::de::Error;
use steersman_informer::serde::{Deserialize, Deserializer};
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{kind, projection};

projection! {
    /// When the holder last renewed the lease.
    pub struct Renewal {
        /// The time by the holder's clock.
        pub time: MicroTime = 4 "renewTime",
    }
}

kind! {
    /// A lease: of a leader, or of a node that shows in this way that it is alive.
    pub struct Lease("coordination.k8s.io", "v1", "leases") {
        renewal: Renewal = 2 "spec",
    }
}

/// A `metav1.MicroTime` in microseconds since 1970. `None` if the field is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MicroTime(pub Option<i64>);

impl FieldValue for MicroTime {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        let (mut seconds, mut nanoseconds) = (0_i64, 0);
        let mut message = field.message()?;
        while let Some(field) = message.field()? {
            match field.number {
                1 => seconds = field.int64()?,
                2 => nanoseconds = field.int32()?,
                _ => {}
            }
        }
        let micros = seconds.saturating_mul(1_000_000).saturating_add(i64::from(nanoseconds / 1000));
        self.0 = Some(micros);
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let stamp: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
        Ok(Self(Some(stamp.as_microsecond())))
    }
}
