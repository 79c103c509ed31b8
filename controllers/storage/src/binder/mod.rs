//! The volume binder: binds claims to volumes, asks external provisioners for new volumes, and reclaims volumes whose claims
//! are gone.
//!
//! ```text
//! claims ──┬─> queue "claims"  ─> match ─> volume.claimRef ─> volume Bound ─> claim.volumeName ─> claim Bound
//!          ×                        └─> default class, event, or annotation for the provisioner
//! volumes ─┴─> queue "volumes" ─> phase; released ─> retained, left to the provisioner, or available again
//! ```
//!
//! Each claim and each volume names the other in the end. The binder writes the volume first, so that no two claims get one
//! volume: of two writes that were decided on one version of a volume, the API server refuses one. A sync may end between any
//! two writes; the next one goes on from what it finds.
//!
//! As upstream's controller, except that
//! - a change of a volume enqueues its claim, and the deletion of a claim enqueues all volumes that name it. Upstream notices
//!   most of these at the end of the sync period;
//! - a claim is lost only if the API server says so of its volume; upstream trusts its cache;
//! - claims and volumes that are settled are not synced again each period;
//! - a released volume with the policy `Retain` becomes available again if its annotation `steersman.io/reuse-when-released`
//!   says so;
//! - hostPath volumes are neither provisioned nor deleted, and no volume is recycled: an event says so.

use std::sync::Arc;
use std::time::Duration;

use steersman_controller::client::{Client, ObjectWriter, StatusWriter};
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop, TaskLoop};
use steersman_informer::{IndexValue, View, keep};
use steersman_kinds::persistent_volume::{
    PersistentVolume, ReclaimPolicy, VolumeAnnotations, VolumeClaimRef, VolumeOffer, VolumePhase,
};
use steersman_kinds::persistent_volume_claim::{
    ClaimAnnotations, ClaimSelector, ClaimStatus, ClaimedVolume, PersistentVolumeClaim, VolumeDemand,
};
use steersman_kinds::pod::{Phase, Placement, Pod};
use steersman_kinds::pod_volumes::PodVolumes;
use steersman_kinds::shared::Shared;
use steersman_kinds::storage_class::{BindingMode, ClassMark, Provisioner, StorageClass};
use steersman_kinds::volume_source::VolumeSource;

mod access_modes;
mod bind;
mod claim;
mod claim_controller;
mod claim_plan;
mod controller;
mod mapping;
mod metrics;
mod migration;
mod operations;
mod plugins;
mod state;
mod status;
mod step;
#[cfg(test)]
mod tests;
mod volume;
mod volume_controller;
mod volume_plan;
mod volumes;

use self::claim_controller::ClaimController;
use self::claim_plan::Settings;
use self::controller::Binder;
use self::metrics::Metrics;
use self::operations::Operations;
use self::state::State;
use self::volume_controller::VolumeController;

/// The row of the controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new(
    "persistentvolume-binder-controller",
    &["persistentvolume-binder"],
    construct,
)
.options::<BinderOptions>()
.rules(&[
    Rule::new(&[""], &["persistentvolumes"], &["get", "list", "watch", "patch"]).because(
        "Kubernetes's own role has update instead, which the controller uses where it may not patch.",
    ),
    Rule::new(&[""], &["persistentvolumeclaims"], &["get", "list", "watch", "patch"]).because(
        "Kubernetes's own role has update instead, which the controller uses where it may not patch.",
    ),
    Rule::new(&[""], &["persistentvolumes/status", "persistentvolumeclaims/status"], &["patch"]).because(
        "Kubernetes's own role has update instead, which the controller uses where it may not patch.",
    ),
    Rule::new(&[""], &["pods"], &["list", "watch"]),
    Rule::new(&["storage.k8s.io"], &["storageclasses"], &["list", "watch"]),
]);

options! {
    /// Settings of the volume binder.
    pub struct BinderOptions("PersistentVolumeBinderController") {
        /// The period for syncing persistent volumes and persistent volume claims
        pub sync_period: Duration = Duration::from_secs(15), "pvclaimbinder-sync-period", "PVClaimBinderSyncPeriod";
        /// Enable dynamic provisioning for environments that support it.
        pub dynamic_provisioning: bool = true,
            "enable-dynamic-provisioning", "VolumeConfiguration.EnableDynamicProvisioning";
    }
}

keep! {
    /// What the binder reads of a volume.
    pub struct BoundVolume: PersistentVolume =>
        Shared<VolumeOffer>, VolumeClaimRef, ReclaimPolicy, VolumeSource, VolumePhase, VolumeAnnotations
}

keep! {
    /// What the binder reads of a claim.
    pub struct BoundClaim: PersistentVolumeClaim =>
        Shared<VolumeDemand>, ClaimedVolume, ClaimSelector, Shared<ClaimStatus>, ClaimAnnotations
}

keep! {
    /// What the binder reads of a storage class.
    pub struct ClaimClass: StorageClass => Provisioner, BindingMode, ClassMark
}

keep! {
    /// What the binder reads of a pod.
    pub struct WaitingPod: Pod => Placement, Phase, PodVolumes
}

/// Makes the controller.
///
/// # Errors
/// A cache runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let options = context.options::<BinderOptions>();
    let volumes = context.informers.informer::<BoundVolume>()?;
    let claims = context.informers.informer::<BoundClaim>()?;
    let classes = context.informers.informer::<ClaimClass>()?;
    let pods = context.informers.informer::<WaitingPod>()?;
    let waiting = pods.add_index("unscheduledByClaim", unscheduled_by_claim);
    let state = Arc::new(State::new(volumes.lister(), claims.lister()));
    let metrics = Metrics::new();
    metrics.register(&context.metrics, &state)?;
    let sender = context.client_for("persistent-volume-binder");
    let claim_client = Client::keeping::<BoundClaim>(sender.clone());
    let volume_client = Client::keeping::<BoundVolume>(sender);
    let (claim_queue, volume_queue) = (context.queue("claims"), context.queue("volumes"));
    let (of_claims, of_volumes) = (Arc::default(), Arc::default());
    let binder = Arc::new(Binder {
        state: Arc::clone(&state),
        classes: classes.lister(),
        pods: pods.lister(),
        waiting,
        claims: claim_client.clone(),
        volumes: volume_client.clone(),
        claim_writer: ObjectWriter::new(claim_client.clone()).remembering(&of_claims),
        claim_status: StatusWriter::new(claim_client).remembering(&of_claims),
        volume_writer: ObjectWriter::new(volume_client.clone()).remembering(&of_volumes),
        volume_status: StatusWriter::new(volume_client).remembering(&of_volumes),
        recorder: context.recorder("persistentvolume-controller"),
        claim_queue: claim_queue.clone(),
        operations: Operations::default(),
        metrics,
        settings: Settings { dynamic_provisioning: options.dynamic_provisioning },
    });
    mapping::map(&volumes, &claims, &state, [&volume_queue, &claim_queue]);

    let syncs_of_claims = QueueLoop::new(Arc::new(ClaimController(Arc::clone(&binder))), claim_queue.clone());
    let syncs_of_volumes = QueueLoop::new(Arc::new(VolumeController(binder)), volume_queue.clone());
    let resync = TaskLoop::new("resync", move |stop| {
        let (state, claims, volumes) = (Arc::clone(&state), claim_queue.clone(), volume_queue.clone());
        async move { mapping::resync(&state, [&volumes, &claims], options.sync_period, &stop).await }
    });
    let loops = [
        syncs_of_claims.give_up(GiveUp::Never).into(),
        syncs_of_volumes.give_up(GiveUp::Never).into(),
        resync.into(),
    ];
    Ok(Construction::new(loops, [volumes.any(), claims.any(), classes.any(), pods.any()]))
}

/// The claims of a pod that waits to be scheduled, each with its namespace.
fn unscheduled_by_claim(pod: &View<WaitingPod>) -> Vec<IndexValue> {
    let meta = pod.meta();
    if !pod.get::<Placement>().node.is_empty() || pod.get::<Phase>().is_terminal() || meta.is_deleting() {
        return Vec::new();
    }
    let claims = pod.get::<PodVolumes>().claim_names(&meta.key.name);
    claims.map(|claim| IndexValue::Pair(meta.key.namespace.clone(), claim)).collect()
}
