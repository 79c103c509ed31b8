//! A volume as the binder sees it.

use std::sync::Arc;

use steersman_api::{ArcStr, Meta, ObjectKey, Quantity, Uid};
use steersman_informer::wire::{Group, Object};
use steersman_kinds::persistent_volume::{
    ClaimReference, PersistentVolume, ReclaimPolicy, VolumeAnnotations, VolumeClaimRef, VolumeKeys,
    VolumeOffer, VolumePhase,
};
use steersman_kinds::persistent_volume_claim::{BETA_STORAGE_CLASS, BOUND_BY_CONTROLLER};
use steersman_kinds::selected_annotations::SelectedAnnotations;
use steersman_kinds::shared::Shared;
use steersman_kinds::volume_source::VolumeSource;

use super::access_modes::AccessModes;
use super::claim::Claim;

/// The phase of a volume that claims may have.
pub(super) const AVAILABLE: &str = "Available";
/// The phase of a volume that a claim has.
pub(super) const BOUND: &str = "Bound";
/// The phase of a volume whose claim is gone.
pub(super) const RELEASED: &str = "Released";
/// The phase of a volume that could not be reclaimed.
pub(super) const FAILED: &str = "Failed";

/// A PersistentVolume with the groups that the binder reads. Clones share the object.
#[derive(Clone, Debug)]
pub(super) struct Volume(pub Arc<PersistentVolume>);

impl Volume {
    fn get<G: Group<Kind = PersistentVolume>>(&self) -> &G {
        G::of(&self.0).expect("the groups that the binder reads must be kept")
    }

    pub(super) fn meta(&self) -> &Meta {
        self.0.meta()
    }

    pub(super) fn name(&self) -> &ArcStr {
        &self.meta().key.name
    }

    pub(super) fn offer(&self) -> &VolumeOffer {
        self.get::<Shared<VolumeOffer>>()
    }

    pub(super) fn annotations(&self) -> &SelectedAnnotations<VolumeKeys> {
        &self.get::<VolumeAnnotations>().selected
    }

    pub(super) fn source(&self) -> &VolumeSource {
        self.get()
    }

    pub(super) fn phase(&self) -> &str {
        &self.get::<VolumePhase>().phase
    }

    pub(super) fn policy(&self) -> &str {
        &self.get::<ReclaimPolicy>().policy
    }

    /// The claim that the volume is bound to or reserved for.
    pub(super) fn claim_ref(&self) -> Option<&ClaimReference> {
        self.get::<VolumeClaimRef>().claim.as_ref()
    }

    /// The storage class. Upstream's `GetPersistentVolumeClass`.
    pub(super) fn class(&self) -> &str {
        self.annotations().get(BETA_STORAGE_CLASS).map_or(&*self.offer().class, |class| &**class)
    }

    /// The capacity. Zero if the volume has none.
    pub(super) fn size(&self) -> Quantity {
        self.offer().capacity.get("storage").unwrap_or_default()
    }

    pub(super) fn access_modes(&self) -> AccessModes {
        AccessModes::of(&self.offer().access_modes)
    }

    /// `Filesystem` or `Block`.
    pub(super) fn mode(&self) -> &str {
        self.offer().volume_mode.as_deref().unwrap_or("Filesystem")
    }

    pub(super) fn attributes_class(&self) -> &str {
        self.offer().attributes_class.as_deref().unwrap_or_default()
    }

    /// Whether a controller, and not a user, bound the volume to its claim.
    pub(super) fn is_bound_by_controller(&self) -> bool {
        self.annotations().has(BOUND_BY_CONTROLLER)
    }

    /// Whether the volume is bound to this claim or reserved for it. Upstream's `IsVolumeBoundToClaim`.
    pub(super) fn is_for(&self, claim: &Claim) -> bool {
        self.claim_ref().is_some_and(|reference| refers(reference, claim))
    }

    /// The key of the claim that the volume is bound to or reserved for.
    pub(super) fn claim_key(&self) -> Option<ObjectKey> {
        let reference = self.claim_ref()?;
        Some(ObjectKey::new(reference.namespace.as_arc().clone(), reference.name.clone()))
    }

    /// The uid of the claim that the volume is bound to. `None` if the volume is unbound or only reserved.
    pub(super) fn bound_uid(&self) -> Option<&Uid> {
        self.claim_ref().map(|reference| &reference.uid).filter(|uid| !uid.is_empty())
    }
}

fn refers(reference: &ClaimReference, claim: &Claim) -> bool {
    let key = &claim.meta().key;
    key.name == reference.name
        && *key.namespace == *reference.namespace
        && (reference.uid.is_empty() || reference.uid == claim.meta().uid)
}
