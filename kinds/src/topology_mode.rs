//! Whether a service asks for topology aware hints.

use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};

use super::annotation;

/// The annotation that asks for topology aware hints.
pub const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// The old name of [`TOPOLOGY_MODE`]. If a service has both, this one counts.
pub const TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

/// The values of the annotations [`TOPOLOGY_MODE`] and [`TOPOLOGY_AWARE_HINTS`]: whether each asks for hints. `None` if it is
/// absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopologyMode {
    mode: Option<bool>,
    deprecated: Option<bool>,
}

impl TopologyMode {
    /// Whether the service asks for topology aware hints, as upstream's `hintsEnabled`.
    pub fn is_auto(self) -> bool {
        self.deprecated.or(self.mode).unwrap_or(false)
    }
}

fn is_auto(value: &str) -> bool {
    value == "Auto" || value == "auto"
}

impl FieldValue for TopologyMode {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        if let Some(value) = annotation::entry(field, TOPOLOGY_MODE)? {
            self.mode = Some(is_auto(value));
        }
        if let Some(value) = annotation::entry(field, TOPOLOGY_AWARE_HINTS)? {
            self.deprecated = Some(is_auto(value));
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut mode = Self::default();
        annotation::pick_each(
            deserializer,
            &[TOPOLOGY_MODE, TOPOLOGY_AWARE_HINTS],
            |key, value| match key {
                TOPOLOGY_MODE => mode.mode = Some(is_auto(value)),
                TOPOLOGY_AWARE_HINTS => mode.deprecated = Some(is_auto(value)),
                _ => {}
            },
        )?;
        Ok(mode)
    }
}
