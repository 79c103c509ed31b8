//! A claim as the binder sees it.

use std::sync::Arc;

use steersman_api::{ArcStr, Meta, Quantity};
use steersman_informer::wire::{Group, Object};
use steersman_kinds::persistent_volume_claim::{
    BETA_STORAGE_CLASS, BIND_COMPLETED, ClaimAnnotations, ClaimKeys, ClaimSelector, ClaimStatus,
    ClaimedVolume, PersistentVolumeClaim, SELECTED_NODE, VolumeDemand,
};
use steersman_kinds::selected_annotations::SelectedAnnotations;
use steersman_kinds::selector::SelectorSpec;
use steersman_kinds::shared::Shared;

use super::volume::Volume;

/// The phase of a claim that waits for a volume.
pub(super) const PENDING: &str = "Pending";
/// The phase of a claim that has a volume.
pub(super) const BOUND: &str = "Bound";
/// The phase of a claim whose volume is gone.
pub(super) const LOST: &str = "Lost";

/// A PersistentVolumeClaim with the groups that the binder reads. Clones share the object.
#[derive(Clone, Debug)]
pub(super) struct Claim(pub Arc<PersistentVolumeClaim>);

impl Claim {
    fn get<G: Group<Kind = PersistentVolumeClaim>>(&self) -> &G {
        G::of(&self.0).expect("the groups that the binder reads must be kept")
    }

    pub(super) fn meta(&self) -> &Meta {
        self.0.meta()
    }

    pub(super) fn name(&self) -> &ArcStr {
        &self.meta().key.name
    }

    pub(super) fn demand(&self) -> &VolumeDemand {
        self.get::<Shared<VolumeDemand>>()
    }

    pub(super) fn status(&self) -> &ClaimStatus {
        self.get::<Shared<ClaimStatus>>()
    }

    pub(super) fn annotations(&self) -> &SelectedAnnotations<ClaimKeys> {
        &self.get::<ClaimAnnotations>().selected
    }

    pub(super) fn selector(&self) -> Option<&SelectorSpec> {
        self.get::<ClaimSelector>().selector.as_deref()
    }

    /// The name of the volume that the claim is bound to or asks for. Empty if there is none.
    pub(super) fn volume_name(&self) -> &ArcStr {
        &self.get::<ClaimedVolume>().name
    }

    /// Whether the claim names a class, be it the empty one. Upstream's `PersistentVolumeClaimHasClass`.
    pub(super) fn has_class(&self) -> bool {
        self.annotations().has(BETA_STORAGE_CLASS) || self.demand().class.is_some()
    }

    /// The storage class. Upstream's `GetPersistentVolumeClaimClass`.
    pub(super) fn class(&self) -> &str {
        let class = self.annotations().get(BETA_STORAGE_CLASS).or(self.demand().class.as_ref());
        class.map_or("", |class| &**class)
    }

    /// The amount of storage that the claim asks for. Zero if it does not say.
    pub(super) fn size(&self) -> Quantity {
        self.demand().resources.requests.get("storage").unwrap_or_default()
    }

    /// `Filesystem` or `Block`.
    pub(super) fn mode(&self) -> &str {
        self.demand().volume_mode.as_deref().unwrap_or("Filesystem")
    }

    pub(super) fn attributes_class(&self) -> &str {
        self.demand().attributes_class.as_deref().unwrap_or_default()
    }

    /// Whether the binding has reached the claim.
    pub(super) fn is_bind_completed(&self) -> bool {
        self.annotations().has(BIND_COMPLETED)
    }

    /// Whether the scheduler has selected a node for a pod that uses the claim.
    pub(super) fn has_selected_node(&self) -> bool {
        self.annotations().has(SELECTED_NODE)
    }

    /// Whether nothing is left to do for the claim until it or its volume changes.
    pub(super) fn is_settled(&self) -> bool {
        self.is_bind_completed() && self.status().phase == *BOUND
    }

    /// Why a volume that the claim asks for by name can't serve it. Upstream's `checkVolumeSatisfyClaim`.
    pub(super) fn refuses(&self, volume: &Volume) -> Option<String> {
        let modes = &volume.offer().access_modes;
        Some(if volume.meta().is_deleting() {
            format!("the volume is marked for deletion {:?}", volume.name().as_str())
        } else if volume.size().value() < self.size().value() {
            "requested PV is too small".to_owned()
        } else if volume.class() != self.class() {
            "storageClassName does not match".to_owned()
        } else if volume.attributes_class() != self.attributes_class() {
            "volumeAttributesClassName does not match".to_owned()
        } else if volume.mode() != self.mode() {
            "incompatible volumeMode".to_owned()
        } else if !self.demand().access_modes.iter().all(|mode| modes.contains(mode)) {
            "incompatible accessMode".to_owned()
        } else {
            return None;
        })
    }
}
