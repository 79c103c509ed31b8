//! The attach-detach controller: attaches volumes to the nodes whose pods need them, and detaches them afterwards. It does so
//! by VolumeAttachments, which the external attacher of each CSI driver serves.
//!
//! ```text
//! pods, claims, PersistentVolumes ─┐
//! VolumeAttachments, nodes ────────┴─> index ─> queue of volumes ─> observe ─> plan: unlist, detach; attach, list
//! ```
//!
//! Upstream keeps its view of the world in memory and compares it ten times a second with what pods need. Here the view is
//! what VolumeAttachments and nodes say, and each change queues the volumes that it concerns. Only waits, and what users have
//! been told, are remembered. Beyond that, there are these differences:
//! - A volume for one node is not attached to a second one while the first may have it, unless by force. Upstream lets it go as
//!   soon as one attempt to detach it has failed or taken two minutes.
//! - A volume is detached by force only from a node that is not ready. Upstream also skips its check of a healthy node that
//!   unmounted the volume late.
//! - Volumes that a pod spells out itself, of types that were once served inside Kubernetes, and volumes of the type
//!   `flexVolume` are not attached.
//!
//! Disks of the types `iscsi` and `fc` have no VolumeAttachments, since nodes reach them by themselves. That such a disk is
//! attached says only the list in the node's status, which the kubelet waits for; it is gone with the node.

mod backoff;
mod controller;
mod index;
mod metrics;
mod names;
mod node_lists;
mod observed;
mod outcome;
mod plan;
#[cfg(test)]
mod tests;
mod volume;
mod volumes;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::own_writes::OwnWrites;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, Loop, QueueLoop, TaskLoop};
use steersman_informer::keep;
use steersman_informer::work_queue::{ItemExponential, QueueConfig};
use steersman_kinds::csi_driver::{Attaching as DriverAttaching, CSIDriver};
use steersman_kinds::node::{Node, Readiness, Taints};
use steersman_kinds::node_volumes::{Attaching, NodeVolumes};
use steersman_kinds::persistent_volume::{PersistentVolume, VolumeClaimRef, VolumeOffer};
use steersman_kinds::persistent_volume_claim::{Binding, ClaimedVolume, PersistentVolumeClaim};
use steersman_kinds::pod::{Phase, Placement, Pod};
use steersman_kinds::pod_volumes::{PodVolumes, Running};
use steersman_kinds::shared::Shared;
use steersman_kinds::volume_attachment::{AttachmentSpec, AttachmentStatus, VolumeAttachment};
use steersman_kinds::volume_source::VolumeSource;

use self::controller::AttachDetachController;
use self::metrics::Metrics;
use self::node_lists::NodeLists;
use self::observed::Settings;
use self::volumes::{Volumes, by_attached, by_volume};

/// The registry's entry of the attach-detach controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("persistentvolume-attach-detach-controller", &["attachdetach"], construct)
        .options::<AttachDetachOptions>()
        .rules(&[
            Rule::new(&[""], &["persistentvolumes", "persistentvolumeclaims", "pods"], &["list", "watch"]),
            Rule::new(&[""], &["nodes"], &["get", "list", "watch"]),
            Rule::new(&[""], &["nodes/status"], &["patch"]),
            Rule::new(
                &["storage.k8s.io"],
                &["volumeattachments"],
                &["get", "list", "watch", "create", "delete"],
            ),
            Rule::new(&["storage.k8s.io"], &["csidrivers"], &["list", "watch"]),
        ]);

options! {
    /// Settings of the attach-detach controller.
    pub struct AttachDetachOptions("AttachDetachController") {
        /// Disable volume attach detach reconciler sync. Disabling this may cause volumes to be mismatched with pods. Use
        /// wisely.
        pub disable_sync: bool = false,
            "disable-attach-detach-reconcile-sync", "DisableAttachDetachReconcilerSync";
        /// The reconciler sync wait time between volume attach detach. This duration must be larger than one second, and
        /// increasing this value from the default may allow for volumes to be mismatched with pods.
        pub sync_period: Duration = Duration::from_secs(60),
            "attach-detach-reconcile-sync-period", "ReconcilerSyncLoopPeriod";
        /// Prevent force detaching volumes based on maximum unmount time and node status. If this flag is set to true, the
        /// non-graceful node shutdown feature must be used to recover from node failure. See
        /// https://k8s.io/docs/storage-disable-force-detach-on-timeout/.
        pub disable_force: bool = false,
            "disable-force-detach-on-timeout", "DisableForceDetachOnTimeout";
        /// How long the controller waits for a node that is not ready to unmount a volume, as upstream. Only tests change it.
        pub max_wait_for_unmount: Duration = Duration::from_secs(360);
    }
}

keep! {
    /// What the controller reads of a pod.
    pub struct AttachingPod: Pod => Placement, Phase, PodVolumes, Running
}

keep! {
    /// What the controller reads of a claim.
    pub struct AttachedClaim: PersistentVolumeClaim => Binding, ClaimedVolume
}

keep! {
    /// What the controller reads of a PersistentVolume.
    pub struct AttachableVolume: PersistentVolume => Shared<VolumeOffer>, VolumeClaimRef, VolumeSource
}

keep! {
    /// What the controller reads of a node.
    pub struct AttachingNode: Node => Taints, Readiness, NodeVolumes, Attaching
}

keep! {
    /// What the controller reads of a VolumeAttachment.
    pub struct WatchedAttachment: VolumeAttachment => AttachmentSpec, AttachmentStatus
}

keep! {
    /// What the controller reads of a CSIDriver.
    pub struct WatchedDriver: CSIDriver => DriverAttaching
}

/// How many volumes are synced at a time.
const WORKERS: usize = 10;
/// The name of the controller's service account, and of the source of its events.
const COMPONENT: &str = "attachdetach-controller";
/// How long the controller waits for its own writes to show in a cache before it reads from the API server.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes the controller.
///
/// # Errors
/// A cache runs already without the fields that the controller reads, a metric has a name that another one has, or the sync
/// period is too short.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let options = context.options::<AttachDetachOptions>();
    if options.sync_period < Duration::from_secs(1) {
        return Err("duration time must be greater than one second as set via command line option \
                    reconcile-sync-loop-period"
            .into());
    }
    let pods = context.informers.informer::<AttachingPod>()?;
    let claims = context.informers.informer::<AttachedClaim>()?;
    let persistent = context.informers.informer::<AttachableVolume>()?;
    let nodes = context.informers.informer::<AttachingNode>()?;
    let attachments = context.informers.informer::<WatchedAttachment>()?;
    let drivers = context.informers.informer::<WatchedDriver>()?;

    let volumes = Arc::new(Volumes {
        index: Mutex::default(),
        pods: pods.lister(),
        claims: claims.lister(),
        volumes: persistent.lister(),
        attachments: attachments.lister(),
        nodes: nodes.lister(),
        drivers: drivers.lister(),
        by_volume: attachments.add_index("persistentVolumeName", by_volume),
    });
    let by_attached = nodes.add_index("volumesAttached", by_attached);
    let sender = context.client_for(COMPONENT);
    let node_client = Client::keeping::<AttachingNode>(sender.clone());
    let lists = Arc::new(NodeLists::new(nodes.lister(), node_client.clone()));

    // Upstream's queue is of claims, and this one of volumes.
    let limiter = ItemExponential::new(Duration::from_millis(500), Duration::from_secs(122));
    let queue = context.queue_with(QueueConfig::new("pvcs").limiter(limiter));
    macro_rules! map {
        ($informer:ident => $method:ident) => {
            $informer.map({
                let (volumes, queue) = (Arc::clone(&volumes), queue.clone());
                move |change| volumes.$method(change).into_iter().for_each(|volume| queue.add(volume))
            });
        };
    }
    map!(pods => pod);
    map!(claims => claim);
    map!(persistent => volume);
    map!(attachments => attachment);
    nodes.map({
        let (volumes, queue, lists) = (Arc::clone(&volumes), queue.clone(), Arc::clone(&lists));
        move |change| {
            if change.new().is_none() {
                lists.forget(&change.key().name);
            }
            volumes.node(change).into_iter().for_each(|volume| queue.add(volume));
        }
    });
    drivers.map({
        let (volumes, queue) = (Arc::clone(&volumes), queue.clone());
        move |change| {
            let touched = volumes.index.lock().volumes_of(&change.key().name);
            touched.into_iter().for_each(|volume| queue.add(volume));
        }
    });

    let metrics = Metrics::new();
    metrics.register(&context.metrics, Arc::clone(&volumes))?;
    let own_writes = OwnWrites::new(PATIENCE).over(&attachments.any());
    let controller = AttachDetachController {
        volumes: Arc::clone(&volumes),
        nodes: nodes.lister(),
        by_attached,
        attachment_cache: attachments.any(),
        node_cache: nodes.any(),
        first_looks: context.first_looks.clone(),
        client: Client::keeping::<WatchedAttachment>(sender),
        node_client,
        lists,
        own_writes,
        memories: Mutex::default(),
        settings: Settings {
            force_after: (!options.disable_force).then_some(options.max_wait_for_unmount),
            verify: !options.disable_sync,
        },
        recorder: context.recorder(COMPONENT),
        metrics,
    };
    let syncs = QueueLoop::new(Arc::new(controller), queue.clone()).workers(WORKERS).give_up(GiveUp::Never);
    let mut loops: Vec<Loop> = vec![syncs.into()];
    if !options.disable_sync {
        let period = options.sync_period;
        loops.push(Loop::from(TaskLoop::new("reconciler sync", move |stop| {
            let (volumes, queue) = (Arc::clone(&volumes), queue.clone());
            async move {
                while stop.run_until_cancelled(tokio::time::sleep(period)).await.is_some() {
                    let all = volumes.index.lock().all();
                    all.into_iter().for_each(|volume| queue.add(volume));
                }
            }
        })));
    }
    let caches = [pods.any(), claims.any(), persistent.any(), nodes.any(), attachments.any(), drivers.any()];
    Ok(Construction::new(loops, caches))
}
