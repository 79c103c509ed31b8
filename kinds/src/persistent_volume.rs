//! The cached fields of PersistentVolumes, in groups.

use steersman_api::{ArcStr, Uid};
use steersman_informer::{Interned, kind, projection};

use super::persistent_volume_claim::{BETA_STORAGE_CLASS, BOUND_BY_CONTROLLER, MIGRATED_TO};
use super::resource_list::ResourceList;
use super::selected_annotations::{Keys, SelectedAnnotations};
use super::selinux::VolumeDisk;
use super::shared::{Shared, pooled};
use super::volume_source::VolumeSource;

projection! {
    /// What the volume offers to claims.
    #[derive(Eq, Hash)]
    pub struct VolumeOffer {
        /// The capacity, under the name `storage`.
        pub capacity: ResourceList = 1 "capacity",
        /// The access modes.
        pub access_modes: Vec<Interned> = 3 "accessModes",
        /// The storage class. Empty if the volume has none.
        pub class: Interned = 6 "storageClassName",
        /// `Filesystem` or `Block`. The API server sets it to `Filesystem` if it is absent.
        pub volume_mode: Option<Interned> = 8 "volumeMode",
        /// The VolumeAttributesClass.
        pub attributes_class: Option<Interned> = 10 "volumeAttributesClassName",
    }

    /// The claim that the volume is bound to or reserved for.
    pub struct VolumeClaimRef {
        /// The claim. `None` if any claim may have the volume.
        pub claim: Option<ClaimReference> = 4 "claimRef",
    }

    /// A reference from a volume to a claim.
    #[derive(Eq)]
    pub struct ClaimReference {
        /// The claim's namespace.
        pub namespace: Interned = 2 "namespace",
        /// The claim's name.
        pub name: ArcStr = 3 "name",
        /// The claim's uid. Empty if the volume is only reserved for a claim of that name.
        pub uid: Uid = 4 "uid",
    }

    /// What becomes of the volume once its claim is deleted.
    pub struct ReclaimPolicy {
        /// `Retain`, `Delete` or `Recycle`.
        pub policy: Interned = 5 "persistentVolumeReclaimPolicy",
    }

    /// The volume's phase.
    pub struct VolumePhase {
        /// `Pending`, `Available`, `Bound`, `Released` or `Failed`.
        pub phase: Interned = 1 "phase",
    }

    /// The annotations by which the volume binder, the scheduler and provisioners work together.
    pub struct VolumeAnnotations {
        /// The annotations that the volume has.
        pub selected: SelectedAnnotations<VolumeKeys> = 12 "annotations",
    }
}

pooled!(VolumeOffer);

/// The annotation with the provisioner that made the volume.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The annotation with the capacity that a volume had before it was expanded, until its file system has grown as well.
pub const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
/// The annotation by which a volume's owner lets the volume binder offer a released volume with the policy `Retain` to claims
/// again, if its value is `true`. It is Steersman's own; upstream keeps such volumes `Released` until a user edits them.
pub const REUSE_WHEN_RELEASED: &str = "steersman.io/reuse-when-released";

/// The annotations in [`VolumeAnnotations`].
pub enum VolumeKeys {}

impl Keys for VolumeKeys {
    const KEYS: &'static [&'static str] = &[
        BETA_STORAGE_CLASS,
        BOUND_BY_CONTROLLER,
        PROVISIONED_BY,
        MIGRATED_TO,
        PRE_RESIZE_CAPACITY,
        REUSE_WHEN_RELEASED,
    ];
}

kind! {
    /// A piece of storage that pods use through claims.
    pub struct PersistentVolume("", "v1", "persistentvolumes") {
        offer: Shared<VolumeOffer> = 2 "spec",
        claim_ref: VolumeClaimRef = 2 "spec",
        reclaim_policy: ReclaimPolicy = 2 "spec",
        source: VolumeSource = 2 "spec",
        phase: VolumePhase = 3 "status",
        annotations: VolumeAnnotations = 1 "metadata",
        disk: VolumeDisk = 2 "spec",
    }
}
