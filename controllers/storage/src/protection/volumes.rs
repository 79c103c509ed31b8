//! The protection of PersistentVolumes from the deletion of volumes that are bound.

use std::sync::Arc;

use steersman_api::Meta;
use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::SyncError;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::{View, keep};
use steersman_kinds::persistent_volume::{PersistentVolume, VolumePhase};

use super::engine::Protection;
use super::{Guard, needs_sync};

/// The registry's entry of the PV protection controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("persistentvolume-protection-controller", &["pv-protection"], construct)
        .rules(&[Rule::new(&[""], &["persistentvolumes"], &["get", "list", "watch", "update"])]);

/// Keeps a volume while it is bound.
pub(super) const FINALIZER: &str = "kubernetes.io/pv-protection";

keep! {
    /// What the controller reads of a volume.
    pub struct ProtectedVolume: PersistentVolume => VolumePhase
}

/// Makes the controller.
///
/// # Errors
/// The cache of volumes runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let volumes = context.informers.informer::<ProtectedVolume>()?;
    let queue = context.queue("pvprotection");
    volumes.map({
        let queue = queue.clone();
        move |change| {
            if needs_sync(change, FINALIZER) {
                queue.add(change.key().clone());
            }
        }
    });
    let client = Client::new(context.client_for("pv-protection-controller"));
    let controller = Protection { objects: volumes.lister(), client, guard: VolumeGuard };
    let syncs = QueueLoop::new(Arc::new(controller), queue).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [volumes.any()]))
}

/// Knows whether a volume is bound.
struct VolumeGuard;

impl Guard for VolumeGuard {
    type Cached = ProtectedVolume;
    const FINALIZER: &'static str = FINALIZER;

    fn is_used(&self, volume: &View<ProtectedVolume>) -> Result<bool, SyncError> {
        Ok(volume.get::<VolumePhase>().phase == "Bound")
    }

    /// The volume itself tells whether it is used, and the finalizer is removed only from the version that the sync has seen.
    async fn is_used_now(&self, _: &Meta) -> Result<bool, SyncError> {
        Ok(false)
    }
}
