//! The volume expander: tells the users of claims that ask for more storage who expands their volumes.
//!
//! ```text
//! a bound claim appears or grows ─> queue "volume_expand" ─> observe ─> plan: read the volume ─┬─ an event
//!                                                                                             └─ migrated: an annotation, too
//! ```
//!
//! External controllers expand volumes; an annotation tells the CSI driver of a migrated volume that it is in charge. As
//! upstream's, except that FlexVolumes are not expanded, and that volumes are read only of claims that ask for more than they
//! have.

mod controller;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use steersman_api::Quantity;
use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::{Change, View, keep};
use steersman_kinds::persistent_volume::{PersistentVolume, VolumeClaimRef};
use steersman_kinds::persistent_volume_claim::{
    ClaimAnnotations, ClaimStatus, ClaimedVolume, PersistentVolumeClaim, VolumeDemand,
};
use steersman_kinds::resource_list::ResourceList;
use steersman_kinds::shared::Shared;
use steersman_kinds::volume_source::VolumeSource;

use self::controller::VolumeExpander;

/// The registry's entry of the volume expander.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("persistentvolume-expander-controller", &["persistentvolume-expander"], construct).rules(
        &[
            Rule::new(&[""], &["persistentvolumeclaims"], &["list", "watch"]),
            Rule::new(&[""], &["persistentvolumeclaims/status"], &["patch"]),
            Rule::new(&[""], &["persistentvolumes"], &["get"]),
        ],
    );

/// How many claims are synced at a time, as upstream.
const WORKERS: usize = 10;
/// Upstream's name for this controller in the source of events.
const COMPONENT: &str = "volume_expand";

keep! {
    /// What the controller reads of a claim.
    pub struct GrowingClaim: PersistentVolumeClaim =>
        Shared<VolumeDemand>, Shared<ClaimStatus>, ClaimedVolume, ClaimAnnotations
}

keep! {
    /// What the controller reads of a volume.
    pub struct GrowingVolume: PersistentVolume => VolumeClaimRef, VolumeSource
}

/// Makes the controller.
///
/// # Errors
/// The cache of claims runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let claims = context.informers.informer::<GrowingClaim>()?;
    let queue = context.queue("volume_expand");
    claims.map({
        let queue = queue.clone();
        move |change| {
            if needs_sync(change) {
                queue.add(change.key().clone());
            }
        }
    });
    let client = context.client_for("expand-controller");
    let controller = VolumeExpander {
        claims: claims.lister(),
        claim_client: Client::new(client.clone()),
        volume_client: Client::keeping::<GrowingVolume>(client),
        recorder: context.recorder(COMPONENT),
    };
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(WORKERS).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [claims.any()]))
}

/// Whether a bound claim asks for more than it has, and that is new: the claim appeared, or one of the two amounts grew.
fn needs_sync(change: &Change<GrowingClaim>) -> bool {
    let grew = |old: &View<GrowingClaim>, new: &View<GrowingClaim>| {
        request(new) > request(old) || capacity(new) > capacity(old) || new.meta().uid != old.meta().uid
    };
    let claim = match change {
        Change::Added { object, .. } | Change::Resync { object } => object,
        Change::Updated { old, new } if grew(old, new) => new,
        Change::Updated { .. } | Change::Deleted { .. } => return false,
    };
    claim.get::<Shared<ClaimStatus>>().phase == "Bound" && request(claim) > capacity(claim)
}

fn request(claim: &View<GrowingClaim>) -> Quantity {
    storage(&claim.get::<Shared<VolumeDemand>>().resources.requests)
}

fn capacity(claim: &View<GrowingClaim>) -> Quantity {
    storage(&claim.get::<Shared<ClaimStatus>>().capacity)
}

fn storage(amounts: &ResourceList) -> Quantity {
    amounts.get("storage").unwrap_or_default()
}
