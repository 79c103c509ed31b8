//! The statuses of claims.

use steersman_api::Quantity;
use steersman_kinds::persistent_volume::PRE_RESIZE_CAPACITY;
use steersman_kinds::resource_list::ResourceList;

use super::claim::{BOUND, Claim, PENDING};
use super::step::{ClaimStatusText, Event, Step};
use super::volume::Volume;

/// Gives the claim a phase in which it has no volume. `None` if its status says so already. Upstream's `updateClaimStatus`
/// without a volume.
pub(super) fn without_volume(claim: &Claim, phase: &'static str) -> Option<Step> {
    write(claim, empty(phase), None)
}

/// As [`without_volume`], with an event if the phase changes. Upstream's `updateClaimStatusWithEvent`.
pub(super) fn lose_volume(claim: &Claim, phase: &'static str, event: Event) -> Option<Step> {
    if claim.status().phase == *phase { None } else { write(claim, empty(phase), Some(event)) }
}

/// Gives the claim the phase `Bound` and what its volume offers. `None` if its status says so already. Upstream's
/// `updateClaimStatus` with a volume.
///
/// The capacity is written only when the claim becomes bound: later it may be less than the volume's on purpose, while the
/// file system has not grown yet. The VolumeAttributesClass is written only when a pending claim becomes bound: later the
/// resizer writes it.
pub(super) fn with_volume(claim: &Claim, volume: &Volume) -> Option<Step> {
    let mut status = ClaimStatusText::of(claim.status());
    let offer = volume.offer();
    status.access_modes.clone_from(&offer.access_modes);
    if status.phase != *BOUND {
        let Some(size) = offer.capacity.get("storage") else {
            let why = format!("PersistentVolume {:?} is without a storage capacity", volume.name().as_str());
            return Some(Step::Fail(why));
        };
        if let Some(before) = volume.annotations().get(PRE_RESIZE_CAPACITY) {
            let before = before.parse::<Quantity>().unwrap_or(size);
            let others = status.capacity.iter().filter(|(name, _)| ***name != *"storage");
            let others = others.map(|(name, amount)| (&**name, amount));
            status.capacity = others.chain([("storage", before)]).collect::<ResourceList>();
        } else if status.capacity.get("storage") != Some(size) {
            status.capacity = offer.capacity.clone();
        }
        if status.phase == *PENDING {
            status.current_attributes_class.clone_from(&offer.attributes_class);
        }
        status.phase = BOUND.into();
    }
    write(claim, status, None)
}

fn empty(phase: &'static str) -> ClaimStatusText {
    ClaimStatusText {
        phase: phase.into(),
        access_modes: Vec::new(),
        capacity: ResourceList::default(),
        current_attributes_class: None,
    }
}

fn write(claim: &Claim, status: ClaimStatusText, event: Option<Event>) -> Option<Step> {
    (status != ClaimStatusText::of(claim.status())).then_some(Step::WriteStatus { status, event })
}
