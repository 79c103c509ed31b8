//! The protection of VolumeAttributesClasses from the deletion of classes that claims or volumes name.

use std::sync::Arc;

use steersman_api::{ArcStr, Meta, ObjectKey};
use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::SyncError;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::wire::{Group, Selection};
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, Index, IndexValue, Lister, View, keep};
use steersman_kinds::persistent_volume::{PersistentVolume, VolumeOffer};
use steersman_kinds::persistent_volume_claim::{PersistentVolumeClaim, StorageAllotment, VolumeDemand};
use steersman_kinds::shared::Shared;
use steersman_kinds::volume_attributes_class::VolumeAttributesClass;

use super::engine::Protection;
use super::{Guard, needs_sync};

/// The registry's entry of the VolumeAttributesClass protection controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("volumeattributesclass-protection-controller", &[], construct).rules(&[
        Rule::new(&["storage.k8s.io"], &["volumeattributesclasses"], &["get", "list", "watch", "update"]),
        Rule::new(&[""], &["persistentvolumeclaims", "persistentvolumes"], &["list", "watch"]),
    ]);

/// Keeps a class until no claim and no volume names it.
pub(super) const FINALIZER: &str = "kubernetes.io/vac-protection";

/// The indexes of claims and volumes by the classes that they name.
const BY_CLASS: &str = "volume attributes class";

keep! {
    /// What the controller reads of a class: its metadata.
    pub struct ProtectedClass: VolumeAttributesClass =>
}

keep! {
    /// What the controller reads of a claim.
    pub struct ClassifiedClaim: PersistentVolumeClaim => Shared<VolumeDemand>, Shared<StorageAllotment>
}

keep! {
    /// What the controller reads of a volume.
    pub struct ClassifiedVolume: PersistentVolume => Shared<VolumeOffer>
}

/// Makes the controller.
///
/// # Errors
/// The cache of claims or of volumes runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let classes = context.informers.informer::<ProtectedClass>()?;
    let claims = context.informers.informer::<ClassifiedClaim>()?;
    let volumes = context.informers.informer::<ClassifiedVolume>()?;
    let queue = context.queue("vacprotection");
    classes.map({
        let queue = queue.clone();
        move |change| {
            if needs_sync(change, FINALIZER) {
                queue.add(change.key().clone());
            }
        }
    });
    claims.map({
        let (classes, queue) = (classes.lister(), queue.clone());
        move |change| queue_released(change, names_of_claim, &classes, &queue)
    });
    volumes.map({
        let (classes, queue) = (classes.lister(), queue.clone());
        move |change| queue_released(change, names_of_volume, &classes, &queue)
    });
    let client = context.client_for("volumeattributesclass-protection-controller");
    let guard = ClassGuard {
        by_claim: claims.add_index(BY_CLASS, |claim| values(names_of_claim(claim))),
        claims: claims.lister(),
        by_volume: volumes.add_index(BY_CLASS, |volume| values(names_of_volume(volume))),
        volumes: volumes.lister(),
        claim_client: Client::keeping::<ClassifiedClaim>(client.clone()),
        volume_client: Client::keeping::<ClassifiedVolume>(client.clone()),
    };
    let controller = Protection { objects: classes.lister(), client: Client::new(client), guard };
    let syncs = QueueLoop::new(Arc::new(controller), queue).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [classes.any(), claims.any(), volumes.any()]))
}

/// Queues the classes that are being deleted, and that an object has named before a change and does not name any more.
fn queue_released<S: Selection>(
    change: &Change<S>,
    names: fn(&View<S>) -> Vec<ArcStr>,
    classes: &Lister<ProtectedClass>,
    queue: &WorkQueue<ObjectKey>,
) {
    let (Change::Updated { old, .. } | Change::Deleted { last: old }) = change else { return };
    let still = change.new().map(names).unwrap_or_default();
    for name in names(old).into_iter().filter(|name| !still.contains(name)) {
        let class = ObjectKey::new("", name);
        if classes.meta(&class).is_some_and(|class| class.is_deleting()) {
            queue.add(class);
        }
    }
}

fn values(names: Vec<ArcStr>) -> Vec<IndexValue> {
    names.into_iter().map(IndexValue::Text).collect()
}

fn names_of_claim(claim: &View<ClassifiedClaim>) -> Vec<ArcStr> {
    names_in_claim(claim.get::<Shared<VolumeDemand>>(), claim.get::<Shared<StorageAllotment>>())
}

fn names_of_volume(volume: &View<ClassifiedVolume>) -> Vec<ArcStr> {
    names_in_volume(volume.get::<Shared<VolumeOffer>>())
}

/// The classes that a claim asks for, has, or is about to get, each once.
pub(super) fn names_in_claim(demand: &VolumeDemand, allotment: &StorageAllotment) -> Vec<ArcStr> {
    let asked_for = demand.attributes_class.as_ref();
    let names = [&allotment.current_attributes_class, &allotment.modification.target];
    let mut names: Vec<ArcStr> =
        asked_for.into_iter().chain(names).map(|name| name.as_arc().clone()).collect();
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.dedup();
    names
}

/// The class that a volume has.
pub(super) fn names_in_volume(offer: &VolumeOffer) -> Vec<ArcStr> {
    let name = offer.attributes_class.as_ref().map(|name| name.as_arc().clone());
    name.into_iter().filter(|name| !name.is_empty()).collect()
}

/// Knows the claims and the volumes that name classes.
struct ClassGuard {
    claims: Lister<ClassifiedClaim>,
    by_claim: Index<ClassifiedClaim>,
    claim_client: Client<PersistentVolumeClaim>,
    volumes: Lister<ClassifiedVolume>,
    by_volume: Index<ClassifiedVolume>,
    volume_client: Client<PersistentVolume>,
}

impl Guard for ClassGuard {
    type Cached = ProtectedClass;
    const FINALIZER: &'static str = FINALIZER;

    fn is_used(&self, class: &View<ProtectedClass>) -> Result<bool, SyncError> {
        let name = IndexValue::Text(class.meta().key.name.clone());
        Ok(self.volumes.count_by_index(&self.by_volume, &name) > 0
            || self.claims.count_by_index(&self.by_claim, &name) > 0)
    }

    async fn is_used_now(&self, class: &Meta) -> Result<bool, SyncError> {
        const KEPT: &str = "the client must decode what it keeps";
        let name = &class.key.name;
        let mut is_used = false;
        let look = |volume: PersistentVolume| {
            let offer = Shared::<VolumeOffer>::of(&volume).expect(KEPT);
            is_used |= names_in_volume(offer).contains(name);
        };
        self.volume_client.for_each("", look).await?;
        if is_used {
            return Ok(true);
        }
        let look = |claim: PersistentVolumeClaim| {
            let demand = Shared::<VolumeDemand>::of(&claim).expect(KEPT);
            let allotment = Shared::<StorageAllotment>::of(&claim).expect(KEPT);
            is_used |= names_in_claim(demand, allotment).contains(name);
        };
        self.claim_client.for_each("", look).await?;
        Ok(is_used)
    }
}
