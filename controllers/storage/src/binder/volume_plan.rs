//! What becomes of a volume.

use steersman_api::ArcStr;
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_kinds::persistent_volume::{PROVISIONED_BY, REUSE_WHEN_RELEASED};
use steersman_kinds::persistent_volume_claim::MIGRATED_TO;

use super::claim::Claim;
use super::claim_plan::Progress;
use super::migration;
use super::operations::Operation;
use super::plugins::{Deletion, deleter_name, deletion};
use super::step::{Event, Step, VolumeChange};
use super::volume::{AVAILABLE, BOUND, FAILED, RELEASED, Volume};

/// A volume, and what its sync depends on.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub volume: Volume,
    /// The claim that the volume names.
    pub claim: Sight,
    /// The provisioner of the volume's class. `None` if there is no such class.
    pub provisioner: Option<ArcStr>,
    /// What this sync has done.
    pub progress: Progress,
}

/// What is known of the claim that a volume names, whatever its uid.
#[derive(Clone, Debug)]
pub(super) enum Sight {
    /// The newest state known to this process.
    Cached(Option<Claim>),
    /// The API server's answer.
    Live(Option<Claim>),
}

/// The next steps for a volume. Upstream's `syncVolume`.
pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    if observed.progress.over {
        return Plan::done();
    }
    let Observed { volume, .. } = observed;
    if let Some(change) = migration::of_volume(volume) {
        return Plan::step(Step::WriteVolume(change));
    }
    let Some(uid) = volume.bound_uid() else { return one(phase(volume, AVAILABLE)) };
    let claim = match &observed.claim {
        Sight::Cached(Some(claim)) | Sight::Live(Some(claim)) if claim.meta().uid == *uid => claim,
        Sight::Live(_) => return one(reclaim(observed)),
        // The volume was reclaimed, or is being reclaimed, after the API server said that the claim is gone.
        Sight::Cached(None) if is_reclaimed(volume) => return one(reclaim(observed)),
        // The cache may lag behind whoever made the claim and bound the volume.
        Sight::Cached(_) => return Plan::step(Step::ReadClaim),
    };
    if claim.volume_name().is_empty() {
        return binding(observed, claim);
    }
    one(if claim.volume_name() == volume.name() { phase(volume, BOUND) } else { unneeded(observed) })
}

fn one(step: Option<Step>) -> Plan<Step> {
    step.map_or(Plan::done(), Plan::step)
}

/// A volume that is bound to a claim which does not name it yet.
fn binding(observed: &Observed, claim: &Claim) -> Plan<Step> {
    let Observed { volume, progress, .. } = observed;
    if progress.said {
        return Plan::done();
    }
    if volume.mode() == claim.mode() {
        return Plan::step(Step::SyncClaim);
    }
    let (of_claim, of_volume) = (claim.name(), volume.name());
    let steps = vec![
        Step::Record(Event::of_volume(
            "VolumeMismatch",
            format!(
                "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
                of_claim.as_str()
            ),
        )),
        Step::Record(Event::warning(
            "VolumeMismatch",
            format!(
                "Cannot bind PersistentVolume {:?} to requested PersistentVolumeClaim due to incompatible volumeMode.",
                of_volume.as_str()
            ),
        )),
    ];
    Plan::Act(Batch { steps, pace: Pace::InOrder, on_failure: OnFailure::Stop })
}

/// A volume whose claim has another one.
fn unneeded(observed: &Observed) -> Option<Step> {
    let Observed { volume, .. } = observed;
    if volume.annotations().has(PROVISIONED_BY) && volume.policy() == "Delete" {
        return reclaim(observed);
    }
    Some(release(volume))
}

/// Takes the claim away from a volume, but not a reservation by a user. Upstream's `unbindVolume`.
fn release(volume: &Volume) -> Step {
    Step::WriteVolume(if volume.is_bound_by_controller() {
        VolumeChange::Unbind
    } else {
        VolumeChange::Reserve
    })
}

/// A volume whose claim is gone, or does not need it. Upstream's `reclaimVolume`, after the phase `Released`.
fn reclaim(observed: &Observed) -> Option<Step> {
    let Observed { volume, claim, provisioner, progress } = observed;
    if !is_reclaimed(volume) {
        return phase(volume, RELEASED);
    }
    let annotations = volume.annotations();
    if annotations.get(MIGRATED_TO).is_some_and(|driver| !driver.is_empty()) {
        // The external provisioner reclaims it.
        return None;
    }
    match volume.policy() {
        "Retain" => {
            let wanted = annotations.get(REUSE_WHEN_RELEASED).is_some_and(|reuse| **reuse == *"true");
            match claim {
                _ if !wanted || volume.phase() != RELEASED || volume.meta().is_deleting() => None,
                Sight::Cached(_) => Some(Step::ReadClaim),
                // A volume that a user reserved stays reserved: its data is not for other claims.
                Sight::Live(_) => Some(release(volume)),
            }
        }
        "Delete" if !progress.begun => {
            let plugin = deleter_name(volume, provisioner.as_deref());
            Some(Step::Begin(Operation { plugin, name: "delete" }))
        }
        "Delete" => match deletion(volume) {
            Deletion::External => None,
            // The event has asked for this deletion.
            Deletion::HostPath(_) if volume.meta().is_deleting() && volume.phase() == FAILED => {
                migration::without_protection(volume).map(Step::WriteVolume)
            }
            Deletion::HostPath(why) | Deletion::None(why) => fail(volume, "VolumeFailedDelete", why),
        },
        "Recycle" => {
            fail(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!".to_owned())
        }
        _ => {
            let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
            fail(volume, "VolumeUnknownReclaimPolicy", message.to_owned())
        }
    }
}

/// Whether the API server has said that the volume's claim is gone, or has another volume.
fn is_reclaimed(volume: &Volume) -> bool {
    volume.phase() == RELEASED || volume.phase() == FAILED
}

fn phase(volume: &Volume, phase: &'static str) -> Option<Step> {
    (volume.phase() != phase).then_some(Step::WritePhase { phase, event: None })
}

fn fail(volume: &Volume, reason: &'static str, message: String) -> Option<Step> {
    let event = Some(Event::of_volume(reason, message));
    (volume.phase() != FAILED).then_some(Step::WritePhase { phase: FAILED, event })
}
