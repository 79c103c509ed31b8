//! The ephemeral volume controller: creates the claim for each generic ephemeral volume of a pod, from the template in the pod.
//!
//! ```text
//! a pod appears, or a claim of its goes ─> queue "ephemeral_volume" ─> observe ─> plan ─┬─ a claim is missing: create it
//!                                                                                      └─ it is another's: an event
//! ```
//!
//! The garbage collector deletes the claims with their pod. As upstream's, except that a claim which the controller has just
//! created, and which the cache does not show yet, is never reported as one that exists already.

mod claim;
mod controller;
mod metrics;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::own_writes::OwnWrites;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::{Change, IndexValue, View, keep};
use steersman_kinds::persistent_volume_claim::PersistentVolumeClaim;
use steersman_kinds::pod_volumes::PodVolumes;

use self::controller::{EphemeralVolumeController, PATIENCE};
use self::metrics::Metrics;
use crate::claiming_pod::{ClaimingPod, by_claim};

/// The registry's entry of the ephemeral volume controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("ephemeral-volume-controller", &["ephemeral-volume"], construct)
        .options::<EphemeralVolumeOptions>()
        .rules(&[
            Rule::new(&[""], &["pods"], &["get", "list", "watch"]),
            Rule::new(&[""], &["pods/finalizers"], &["update"])
                .because("Claims name their pod as an owner that may not go before them."),
            Rule::new(&[""], &["persistentvolumeclaims"], &["get", "list", "watch", "create"]),
        ]);

options! {
    /// Settings of the ephemeral volume controller.
    pub struct EphemeralVolumeOptions("EphemeralVolumeController") {
        /// Number of pods whose ephemeral volumes are synced concurrently
        pub concurrent_syncs: Workers = Workers(5),
            "concurrent-ephemeralvolume-syncs", "ConcurrentEphemeralVolumeSyncs";
    }
}

/// Upstream's name for this controller in the source of events.
const COMPONENT: &str = "ephemeral_volume";

keep! {
    /// What the controller reads of a claim: its metadata.
    pub struct MadeClaim: PersistentVolumeClaim =>
}

/// Makes the controller.
///
/// # Errors
/// The cache of pods runs already without the fields that the controller reads, or its metrics are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let metrics = Metrics::new();
    metrics.register(&context.metrics)?;
    let pods = context.informers.informer::<ClaimingPod>()?;
    let claims = context.informers.informer::<MadeClaim>()?;
    let by_claim = by_claim(&pods);
    let queue = context.queue("ephemeral_volume");
    pods.map({
        let queue = queue.clone();
        move |change| match change {
            Change::Added { object: pod, .. } | Change::Resync { object: pod } if needs_claims(pod) => {
                queue.add(change.key().clone());
            }
            Change::Updated { old, new } if old.meta().uid != new.meta().uid && needs_claims(new) => {
                queue.add(change.key().clone());
            }
            _ => {}
        }
    });
    claims.map({
        let (pods, queue) = (pods.lister(), queue.clone());
        move |change| {
            // The key of a pod that waits for its claim to appear in the cache is that of another object.
            let uid = change.newest().meta().controller().map(|owner| owner.uid.clone());
            if let Some(Ok(Some(pod))) = uid.map(|uid| pods.get_by_uid(&uid)) {
                queue.wake(&pod.meta().key);
            }
            if let Change::Deleted { last } = change {
                let key = &last.meta().key;
                let value = IndexValue::Pair(key.namespace.clone(), key.name.clone());
                // Unreadable pods can't be synced.
                for pod in pods
                    .by_index(&by_claim, &value)
                    .unwrap_or_default()
                    .iter()
                    .filter(|pod| needs_claims(pod))
                {
                    queue.add(pod.meta().key.clone());
                }
            }
        }
    });
    let client = context.client_for("ephemeral-volume-controller");
    let controller = EphemeralVolumeController {
        pods: pods.lister(),
        claims: claims.lister(),
        pod_client: Client::new(client.clone()),
        claim_client: Client::new(client),
        own_writes: OwnWrites::new(PATIENCE).over(&claims.any()),
        recorder: context.recorder(COMPONENT),
        metrics,
    };
    let workers = context.options::<EphemeralVolumeOptions>().concurrent_syncs.0;
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(workers).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [pods.any(), claims.any()]))
}

fn needs_claims(pod: &View<ClaimingPod>) -> bool {
    !pod.meta().is_deleting() && pod.get::<PodVolumes>().ephemeral().next().is_some()
}
