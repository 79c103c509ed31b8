//! The four writes that bind a claim and a volume.

use super::claim::Claim;
use super::status::with_volume;
use super::step::{ClaimChange, Step, VolumeChange};
use super::volume::{BOUND, Volume};

/// The next write that binds the claim and the volume; `None` once they are bound. The order makes each state from which a
/// sync may have to go on safe: the volume names the claim, the volume is `Bound`, the claim names the volume, the claim is
/// `Bound`. Upstream's `bind`.
pub(super) fn next_write(volume: &Volume, claim: &Claim) -> Option<Step> {
    let is_bound = volume.is_for(claim) && volume.bound_uid().is_some();
    if !is_bound {
        return Some(Step::WriteVolume(VolumeChange::Bind { chosen: !volume.is_for(claim) }));
    }
    if volume.phase() != BOUND {
        return Some(Step::WritePhase { phase: BOUND, event: None });
    }
    let chosen = claim.volume_name() != volume.name();
    if chosen || !claim.is_bind_completed() {
        return Some(Step::WriteClaim(ClaimChange::Bind { volume: volume.name().clone(), chosen }));
    }
    with_volume(claim, volume)
}
