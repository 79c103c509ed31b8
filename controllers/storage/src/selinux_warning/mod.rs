//! The SELinux warning controller: warns by events, and by a metric, of pods that use the same volume with different SELinux
//! labels. If they run on one node, only one of them can use the volume.
//!
//! ```text
//! a pod appears, ends or goes ────────┐
//! a claim or volume is bound, its ────┼─> queue "selinux_warning" ─> how does the pod use its volumes? ─> note it ─> events
//! pods; a CSI driver, its pods ───────┘                                                    metric <─ conflicts ─┘
//! ```
//!
//! Off unless `--controllers` names it. As upstream's, except that a volume whose claim is not bound, or which has no name that
//! other pods could share, is not tried again and again: the change that it waits for queues the pod.

mod conflict;
mod controller;
mod label;
mod mapping;
mod metrics;
#[cfg(test)]
mod tests;
mod uses;
mod volumes;

use std::sync::Arc;

use parking_lot::Mutex;
use steersman_controller::context::ControllerContext;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::{IndexValue, View, keep};
use steersman_kinds::csi_driver::{CSIDriver, SelinuxMount};
use steersman_kinds::persistent_volume::{PersistentVolume, VolumeClaimRef};
use steersman_kinds::persistent_volume_claim::{Binding, ClaimedVolume, PersistentVolumeClaim};
use steersman_kinds::pod::{Phase, Pod};
use steersman_kinds::pod_volumes::ephemeral_claim;
use steersman_kinds::selinux::{MountSource, SelinuxMounts, VolumeDisk};
use steersman_kinds::volume_source::VolumeSource;

use self::controller::SelinuxWarning;
use self::mapping::Mapping;
use self::volumes::Volumes;

const READ: &[&str] = &["list", "watch"];

/// The registry's entry of the SELinux warning controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new(NAME, &[], construct).off_by_default().rules(&[
    Rule::new(&[""], &["pods", "persistentvolumeclaims", "persistentvolumes"], READ),
    Rule::new(&["storage.k8s.io"], &["csidrivers"], READ),
]);

const NAME: &str = "selinux-warning-controller";
/// The name of the queue, and the source of the controller's events.
const COMPONENT: &str = "selinux_warning";

keep! {
    /// What the controller reads of a pod.
    pub struct LabelledPod: Pod => Phase, SelinuxMounts
}

keep! {
    /// What the controller reads of a claim.
    pub struct MountedClaim: PersistentVolumeClaim => Binding, ClaimedVolume
}

keep! {
    /// What the controller reads of a volume.
    pub struct MountedVolume: PersistentVolume => VolumeClaimRef, VolumeSource, VolumeDisk
}

keep! {
    /// What the controller reads of a CSI driver.
    pub struct MountingDriver: CSIDriver => SelinuxMount
}

/// Makes the controller.
///
/// # Errors
/// A cache runs already without the fields that the controller reads, or its metric is registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let pods = context.informers.informer::<LabelledPod>()?;
    let claims = context.informers.informer::<MountedClaim>()?;
    let volumes = context.informers.informer::<MountedVolume>()?;
    let drivers = context.informers.informer::<MountingDriver>()?;
    let used = Arc::new(Mutex::new(Volumes::default()));
    metrics::register(&context.metrics, Arc::clone(&used))?;
    let queue = context.queue(COMPONENT);
    let mapping = Arc::new(Mapping {
        pods: pods.lister(),
        pods_by_claim: pods.add_index("claims of mountable volumes", claims_of),
        used: Arc::clone(&used),
        queue: queue.clone(),
    });
    pods.map({
        let mapping = Arc::clone(&mapping);
        move |change| mapping.pod(change)
    });
    claims.map({
        let mapping = Arc::clone(&mapping);
        move |change| mapping.claim(change)
    });
    volumes.map({
        let mapping = Arc::clone(&mapping);
        move |change| mapping.volume(change)
    });
    drivers.map(move |change| mapping.driver(change));
    let controller = SelinuxWarning {
        pods: pods.lister(),
        claims: claims.lister(),
        volumes: volumes.lister(),
        drivers: drivers.lister(),
        used,
        recorder: context.recorder(COMPONENT),
    };
    let syncs = QueueLoop::new(Arc::new(controller), queue).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [pods.any(), claims.any(), volumes.any(), drivers.any()]))
}

/// The claims of a pod's volumes, for an index.
fn claims_of(pod: &View<LabelledPod>) -> Vec<IndexValue> {
    let meta = pod.meta();
    let volumes = pod.get::<SelinuxMounts>().volumes.0.iter();
    let names = volumes.filter_map(|volume| match &volume.source {
        MountSource::Claim(name) => Some(name.clone()),
        MountSource::Ephemeral => Some(ephemeral_claim(&meta.key.name, &volume.name)),
        MountSource::Disk(_) | MountSource::Other => None,
    });
    let mut claims: Vec<_> = names.map(|name| IndexValue::Pair(meta.key.namespace.clone(), name)).collect();
    claims.sort();
    claims.dedup();
    claims
}
