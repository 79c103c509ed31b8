//! The failures of an index of an indexed job, which each pod of the index hands on to the next one.

use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};

use super::annotation;

/// The annotation with the number of an index's failures that count towards `backoffLimitPerIndex`.
pub const COUNTED: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation with the number of an index's failures that the pod failure policy ignores. Absent if there are none.
pub const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The numbers of failures of an index before a pod was created: the values of the pod's annotations [`COUNTED`] and
/// [`IGNORED`]. An absent or invalid annotation counts as zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexFailures {
    /// The failures that count towards `backoffLimitPerIndex`. At most `i32::MAX`.
    pub counted: u32,
    /// The failures that the pod failure policy ignores. At most `i32::MAX`.
    pub ignored: u32,
}

impl IndexFailures {
    /// All failures.
    pub fn total(self) -> u32 {
        self.counted.saturating_add(self.ignored)
    }

    fn set(&mut self, annotation: &str, value: &str) {
        let number = value.parse::<i32>().ok().and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
        if annotation == COUNTED {
            self.counted = number;
        } else {
            self.ignored = number;
        }
    }
}

impl FieldValue for IndexFailures {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        for name in [COUNTED, IGNORED] {
            if let Some(value) = annotation::entry(field, name)? {
                self.set(name, value);
            }
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut failures = Self::default();
        annotation::pick_each(deserializer, &[COUNTED, IGNORED], |name, value| failures.set(name, value))?;
        Ok(failures)
    }
}
