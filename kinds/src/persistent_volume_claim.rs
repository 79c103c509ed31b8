//! The cached fields of PersistentVolumeClaims, in groups.

use steersman_api::ArcStr;
use steersman_informer::serde::Deserializer;
use steersman_informer::wire::{Field, FieldValue, WireError};
use steersman_informer::{Interned, kind, projection};

use super::annotation;
use super::resource_list::ResourceList;
use super::selected_annotations::{Keys, SelectedAnnotations};
use super::selector::SelectorSpec;
use super::shared::{Shared, pooled};

projection! {
    /// Whether the claim has a volume.
    pub struct Binding {
        /// `Pending`, `Bound` or `Lost`.
        pub phase: Interned = 1 "phase",
    }

    /// The storage that a claim asks for.
    #[derive(Eq, Hash)]
    pub struct StorageDemand {
        /// The amount.
        pub resources: StorageRequest = 2 "resources",
        /// The storage class. May be empty.
        pub class: Interned = 5 "storageClassName",
        /// The VolumeAttributesClass. May be empty.
        pub attributes_class: Interned = 9 "volumeAttributesClassName",
    }

    /// The amount of storage that a claim asks for.
    #[derive(Eq, Hash)]
    pub struct StorageRequest {
        /// The amount, under the name `storage`.
        pub requests: ResourceList = 2 "requests",
    }

    /// The storage that a claim has, or will have once its volume is expanded.
    #[derive(Eq, Hash)]
    pub struct StorageAllotment {
        /// The amount that is set aside, under the name `storage`. Empty before the volume's first expansion.
        pub allocated: ResourceList = 5 "allocatedResources",
        /// The VolumeAttributesClass that the volume has. May be empty.
        pub current_attributes_class: Interned = 8 "currentVolumeAttributesClassName",
        /// The change of the VolumeAttributesClass that is under way.
        pub modification: Modification = 9 "modifyVolumeStatus",
    }

    /// A change of the VolumeAttributesClass.
    #[derive(Eq, Hash)]
    pub struct Modification {
        /// The VolumeAttributesClass that the volume will have. May be empty.
        pub target: Interned = 1 "targetVolumeAttributesClassName",
    }

    /// The storage class that claims named before `storageClassName`.
    pub struct BetaStorageClass {
        /// The annotation that names it.
        pub class: BetaClass = 12 "annotations",
    }

    /// What a volume must be like to serve the claim. The selector is in [`ClaimSelector`].
    #[derive(Eq, Hash)]
    pub struct VolumeDemand {
        /// The access modes that the volume must offer.
        pub access_modes: Vec<Interned> = 1 "accessModes",
        /// The amount of storage.
        pub resources: StorageRequest = 2 "resources",
        /// The storage class. `None` lets the API server or the volume binder choose the default class; the empty text asks
        /// for a volume without class.
        pub class: Option<Interned> = 5 "storageClassName",
        /// `Filesystem` or `Block`. The API server sets it to `Filesystem` if it is absent.
        pub volume_mode: Option<Interned> = 6 "volumeMode",
        /// The VolumeAttributesClass.
        pub attributes_class: Option<Interned> = 9 "volumeAttributesClassName",
    }

    /// The volume that the claim is bound to, or wants to be bound to.
    pub struct ClaimedVolume {
        /// The volume's name. Empty if the claim has none.
        pub name: ArcStr = 3 "volumeName",
    }

    /// The labels that a volume must have to serve the claim.
    pub struct ClaimSelector {
        /// The selector. `None` selects all volumes.
        pub selector: Option<Box<SelectorSpec>> = 4 "selector",
    }

    /// What the claim has got.
    #[derive(Eq, Hash)]
    pub struct ClaimStatus {
        /// `Pending`, `Bound` or `Lost`.
        pub phase: Interned = 1 "phase",
        /// The access modes of the volume.
        pub access_modes: Vec<Interned> = 2 "accessModes",
        /// The capacity that the claim's users can use. It may be less than the volume's while the file system grows.
        pub capacity: ResourceList = 3 "capacity",
        /// The VolumeAttributesClass of the volume.
        pub current_attributes_class: Option<Interned> = 8 "currentVolumeAttributesClassName",
    }

    /// The annotations by which the volume binder, the scheduler and provisioners work together.
    pub struct ClaimAnnotations {
        /// The annotations that the claim has.
        pub selected: SelectedAnnotations<ClaimKeys> = 12 "annotations",
    }
}

pooled!(StorageDemand, StorageAllotment, VolumeDemand, ClaimStatus);

/// The annotation of a claim whose binding has reached the claim: its `volumeName` is certain. The value does not matter.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The annotation of a claim or a volume that the volume binder or the scheduler bound, and not a user. The value does not
/// matter.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The annotation with the node on which the scheduler wants the volume to be provisioned.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation with the provisioner that shall provision a volume for the claim.
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The old name of [`STORAGE_PROVISIONER`]. Both are written.
pub const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// The annotation with the CSI driver that serves a claim or a volume instead of a plugin inside Kubernetes.
pub const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// The annotation with the CSI driver that expands the volume of a claim instead of a plugin inside Kubernetes.
pub const STORAGE_RESIZER: &str = "volume.kubernetes.io/storage-resizer";

/// The annotations in [`ClaimAnnotations`].
pub enum ClaimKeys {}

impl Keys for ClaimKeys {
    const KEYS: &'static [&'static str] = &[
        BETA_STORAGE_CLASS,
        BIND_COMPLETED,
        BOUND_BY_CONTROLLER,
        SELECTED_NODE,
        STORAGE_PROVISIONER,
        BETA_STORAGE_PROVISIONER,
        MIGRATED_TO,
        STORAGE_RESIZER,
    ];
}

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
        volume_demand: Shared<VolumeDemand> = 2 "spec",
        volume: ClaimedVolume = 2 "spec",
        selector: ClaimSelector = 2 "spec",
        status: Shared<ClaimStatus> = 3 "status",
        annotations: ClaimAnnotations = 1 "metadata",
    }
}
