//! The cached fields of VolumeAttributesClasses, in groups.

use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, kind};

/// The CSI driver that gives volumes the class's attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributesDriver(pub Interned);

impl FieldValue for AttributesDriver {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        self.0.merge(field)
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Interned::from_json(deserializer).map(Self)
    }
}

kind! {
    /// A class of attributes, such as throughput, that volumes can have.
    pub struct VolumeAttributesClass("storage.k8s.io", "v1", "volumeattributesclasses") {
        driver: AttributesDriver = 2 "driverName",
    }
}
