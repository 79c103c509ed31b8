//! The cached fields of PersistentVolumeClaims, in groups.

use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, kind, projection};

use super::annotation;
use super::resource_list::ResourceList;
use super::shared::{Shared, pooled};

projection! {
    /// Whether the claim has a volume.
    pub struct Binding {
        /// `Pending`, `Bound` or `Lost`.
        pub phase: Interned = 1 "phase",
    }

    /// The storage that a claim asks for.
    #[derive(PartialEq, Eq, Hash)]
    pub struct StorageDemand {
        /// The amount.
        pub resources: StorageRequest = 2 "resources",
        /// The storage class. May be empty.
        pub class: Interned = 5 "storageClassName",
        /// The VolumeAttributesClass. May be empty.
        pub attributes_class: Interned = 9 "volumeAttributesClassName",
    }

    /// The amount of storage that a claim asks for.
    #[derive(PartialEq, Eq, Hash)]
    pub struct StorageRequest {
        /// The amount, under the name `storage`.
        pub requests: ResourceList = 2 "requests",
    }

    /// The storage that a claim has, or will have once its volume is expanded.
    #[derive(PartialEq, Eq, Hash)]
    pub struct StorageAllotment {
        /// The amount that is set aside, under the name `storage`. Empty before the volume's first expansion.
        pub allocated: ResourceList = 5 "allocatedResources",
        /// The VolumeAttributesClass that the volume has. May be empty.
        pub current_attributes_class: Interned = 8 "currentVolumeAttributesClassName",
        /// The change of the VolumeAttributesClass that is under way.
        pub modification: Modification = 9 "modifyVolumeStatus",
    }

    /// A change of the VolumeAttributesClass.
    #[derive(PartialEq, Eq, Hash)]
    pub struct Modification {
        /// The VolumeAttributesClass that the volume will have. May be empty.
        pub target: Interned = 1 "targetVolumeAttributesClassName",
    }

    /// The storage class that claims named before `storageClassName`.
    pub struct BetaStorageClass {
        /// The annotation that names it.
        pub class: BetaClass = 12 "annotations",
    }
}

pooled!(StorageDemand, StorageAllotment);

/// The annotation that named the storage class before the field `storageClassName`. It has precedence over the field.
pub const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The value of the annotation [`BETA_STORAGE_CLASS`]. `None` if the annotation is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BetaClass(pub Option<Interned>);

impl FieldValue for BetaClass {
    fn merge(&mut self, field: Field<'_>) -> Result<(), WireError> {
        if let Some(class) = annotation::entry(field, BETA_STORAGE_CLASS)? {
            self.0 = Some(class.into());
        }
        Ok(())
    }

    fn from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        annotation::pick(deserializer, BETA_STORAGE_CLASS, |class| Self(Some(class.into())))
    }
}

kind! {
    /// A claim of a persistent volume.
    pub struct PersistentVolumeClaim("", "v1", "persistentvolumeclaims") {
        binding: Binding = 3 "status",
        demand: Shared<StorageDemand> = 2 "spec",
        allotment: Shared<StorageAllotment> = 3 "status",
        beta_class: BetaStorageClass = 1 "metadata",
    }
}
