//! Annotations and finalizers of claims and volumes whose plugin a CSI driver has replaced.

use steersman_api::ArcStr;
use steersman_kinds::persistent_volume::PROVISIONED_BY;
use steersman_kinds::persistent_volume_claim::{BETA_STORAGE_PROVISIONER, MIGRATED_TO, STORAGE_PROVISIONER};
use steersman_kinds::volume_source::migrated_driver;

use super::claim::Claim;
use super::step::VolumeChange;
use super::volume::Volume;

/// The finalizer by which an external provisioner keeps a volume until its data is deleted.
const EXTERNAL_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// The finalizer that keeps a volume of upstream's own plugins until its data is deleted.
const IN_TREE_FINALIZER: &str = "kubernetes.io/pv-controller";

/// What the annotation `migrated-to` must become, for this provisioner and this present value. `None`: it is right.
/// `Some(None)`: it must go. Upstream's `updateMigrationAnnotations`.
pub(super) fn migrated_to(provisioner: &str, present: Option<&str>) -> Option<Option<ArcStr>> {
    match (migrated_driver(provisioner), present.unwrap_or_default()) {
        (Some(driver), present) => (driver != present).then(|| Some(driver.into())),
        (None, "") => None,
        (None, _) => Some(None),
    }
}

/// What the annotation `migrated-to` of a claim must become, as [`migrated_to`] says.
pub(super) fn of_claim(claim: &Claim) -> Option<Option<ArcStr>> {
    let annotations = claim.annotations();
    let provisioner =
        annotations.get(STORAGE_PROVISIONER).or_else(|| annotations.get(BETA_STORAGE_PROVISIONER))?;
    migrated_to(provisioner, annotations.get(MIGRATED_TO).map(|driver| &**driver))
}

/// The change that sets a provisioned volume's annotation and finalizers right. `None` if they are. Upstream's
/// `updateVolumeMigrationAnnotationsAndFinalizers`.
pub(super) fn of_volume(volume: &Volume) -> Option<VolumeChange> {
    let annotations = volume.annotations();
    let provisioner = annotations.get(PROVISIONED_BY)?;
    let migrated_to = migrated_to(provisioner, annotations.get(MIGRATED_TO).map(|driver| &**driver));
    let finalizers = finalizers(volume, provisioner);
    (migrated_to.is_some() || finalizers.is_some())
        .then_some(VolumeChange::Migrate { migrated_to, finalizers })
}

/// The finalizers that a volume must have. `None`: those that it has. Upstream's `modifyDeletionFinalizers`.
fn finalizers(volume: &Volume, provisioner: &str) -> Option<Vec<ArcStr>> {
    let present = &volume.meta().finalizers;
    let mut wanted = present.to_vec();
    if migrated_driver(provisioner).is_some() {
        wanted.retain(|finalizer| finalizer != IN_TREE_FINALIZER);
    } else if provisioner.starts_with("kubernetes.io/") {
        match volume.policy() {
            // The API server refuses new finalizers of an object that is being deleted.
            "Delete"
                if !volume.meta().is_deleting()
                    && !wanted.iter().any(|finalizer| finalizer == IN_TREE_FINALIZER) =>
            {
                wanted.push(IN_TREE_FINALIZER.into());
            }
            "Retain" | "Recycle" => wanted.retain(|finalizer| finalizer != IN_TREE_FINALIZER),
            _ => {}
        }
        wanted.retain(|finalizer| finalizer != EXTERNAL_FINALIZER);
    }
    (*wanted != **present).then_some(wanted)
}

/// The change that lets a volume go whose data upstream's own plugins would have deleted first. `None` if nothing of theirs
/// keeps it.
pub(super) fn without_protection(volume: &Volume) -> Option<VolumeChange> {
    let present = &volume.meta().finalizers;
    let left: Vec<_> = present.iter().filter(|finalizer| *finalizer != IN_TREE_FINALIZER).cloned().collect();
    (left.len() < present.len())
        .then_some(VolumeChange::Migrate { migrated_to: None, finalizers: Some(left) })
}
