//! The protection of PersistentVolumeClaims from the deletion of claims that pods use.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::{ArcStr, Meta, Uid};
use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::SyncError;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::index::{BY_NAMESPACE, by_namespace};
use steersman_informer::wire::{Group, Object};
use steersman_informer::{Change, Index, IndexValue, Lister, View, keep};
use steersman_kinds::persistent_volume_claim::PersistentVolumeClaim;
use steersman_kinds::pod::{Phase, Placement, Pod};
use steersman_kinds::pod_volumes::{PodVolumes, VolumeUse};
use tokio::time::Instant;

use super::engine::Protection;
use super::{Guard, needs_sync};
use crate::claiming_pod::{ClaimingPod, by_claim, claim_names_of};

/// The registry's entry of the PVC protection controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("persistentvolumeclaim-protection-controller", &["pvc-protection"], construct).rules(&[
        Rule::new(&[""], &["persistentvolumeclaims"], &["get", "list", "watch", "update"]),
        Rule::new(&[""], &["pods"], &["list", "watch"]),
    ]);

/// Keeps a claim until no pod uses it.
pub(super) const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// For how long one list of a namespace's pods serves the claims that were being deleted when it began.
const LIST_SERVES: Duration = Duration::from_secs(10);

keep! {
    /// What the controller reads of a claim: its metadata.
    pub struct ProtectedClaim: PersistentVolumeClaim =>
}

/// Makes the controller.
///
/// # Errors
/// The cache of pods runs already without the fields that the controller reads.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let claims = context.informers.informer::<ProtectedClaim>()?;
    let pods = context.informers.informer::<ClaimingPod>()?;
    let queue = context.queue("pvcprotection");
    claims.map({
        let queue = queue.clone();
        move |change| {
            if needs_sync(change, FINALIZER) {
                queue.add(change.key().clone());
            }
        }
    });
    pods.map({
        let (claims, queue) = (claims.lister(), queue.clone());
        move |change| {
            for pod in released(change) {
                for name in claim_names_of(pod) {
                    let mut claim = pod.meta().key.clone();
                    claim.name = name;
                    if claims.meta(&claim).is_some_and(|claim| claim.is_deleting()) {
                        queue.add(claim);
                    }
                }
            }
        }
    });
    let client = context.client_for("pvc-protection-controller");
    let guard = ClaimGuard {
        pods: pods.lister(),
        by_claim: by_claim(&pods),
        claims: claims.lister(),
        by_namespace: claims.add_index(BY_NAMESPACE, by_namespace::<ProtectedClaim>),
        client: Client::keeping::<ClaimingPod>(client.clone()),
        unused: Mutex::default(),
    };
    let controller = Protection { objects: claims.lister(), client: Client::new(client), guard };
    let syncs = QueueLoop::new(Arc::new(controller), queue).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [claims.any(), pods.any()]))
}

/// The pods of a change that may use their claims no more.
fn released(change: &Change<ClaimingPod>) -> impl Iterator<Item = &View<ClaimingPod>> {
    let gone = change.old().filter(|old| change.new().is_none_or(|new| new.meta().uid != old.meta().uid));
    let may_have_ended = |pod: &&View<ClaimingPod>| {
        pod.get::<Placement>().node.is_empty() || pod.get::<Phase>().is_terminal() || pod.meta().is_deleting()
    };
    gone.into_iter().chain(change.new().filter(may_have_ended))
}

/// A pod that may use claims.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    pub meta: &'a Meta,
    pub placement: &'a Placement,
    pub volumes: &'a PodVolumes,
}

impl<'a> Candidate<'a> {
    fn cached(pod: &'a View<ClaimingPod>) -> Self {
        Self { meta: pod.meta(), placement: pod.get(), volumes: pod.get() }
    }

    /// Whether the pod uses a claim of its namespace: it was scheduled, so that a kubelet may have mounted the claim, whether it
    /// has ended since or not. A claim that was made for the pod is used only until the kubelet has finished with the pod, or
    /// the pod was deleted by force: what keeps the pod then may wait for the claim. Upstream: `podUsesPVCForDeletion`.
    pub(super) fn uses(&self, claim: &Meta) -> bool {
        if self.placement.node.is_empty() {
            return false;
        }
        let is_finished = self.meta.is_deleting() && self.meta.deletion_grace == Some(0);
        let is_made_for_it = !is_finished && claim.is_controlled_by(&self.meta.uid);
        let mut volumes = self.volumes.volumes.0.iter().filter(|volume| match volume {
            VolumeUse::Ephemeral(_) => is_made_for_it,
            _ => true,
        });
        volumes.any(|volume| volume.claim_name(&self.meta.key.name).as_ref() == Some(&claim.key.name))
    }
}

/// Knows the pods that use claims.
struct ClaimGuard {
    pods: Lister<ClaimingPod>,
    by_claim: Index<ClaimingPod>,
    claims: Lister<ProtectedClaim>,
    by_namespace: Index<ProtectedClaim>,
    client: Client<Pod>,
    /// Claims that a list, which began at that time, showed to be unused. When many claims of a namespace are deleted, one list
    /// of its pods serves all of them.
    unused: Mutex<HashMap<Uid, Instant>>,
}

impl Guard for ClaimGuard {
    type Cached = ProtectedClaim;
    const FINALIZER: &'static str = FINALIZER;

    fn term_begins(&self) {
        self.unused.lock().clear();
    }

    fn is_used(&self, claim: &View<ProtectedClaim>) -> Result<bool, SyncError> {
        let meta = claim.meta();
        let value = IndexValue::Pair(meta.key.namespace.clone(), meta.key.name.clone());
        let pods = self.pods.by_index(&self.by_claim, &value);
        let pods = pods.map_err(|pod| SyncError::Unreadable(format!("Pod {}", pod.key)))?;
        Ok(pods.iter().any(|pod| Candidate::cached(pod).uses(meta)))
    }

    async fn is_used_now(&self, claim: &Meta) -> Result<bool, SyncError> {
        let listed = self.unused.lock().remove(&claim.uid);
        if listed.is_some_and(|listed| listed.elapsed() < LIST_SERVES) {
            return Ok(false);
        }
        // No pod starts to use a claim that is being deleted: the kubelet refuses it. So a list that begins now serves all
        // claims whose deletion the cache shows already.
        let began = Instant::now();
        let mut unused: HashMap<ArcStr, Meta> = HashMap::new();
        let namespace = &claim.key.namespace;
        self.claims.for_each_meta_by_index(&self.by_namespace, &namespace.clone().into(), |other| {
            if other.is_deleting() && other.has_finalizer(FINALIZER) {
                unused.insert(other.key.name.clone(), other.clone());
            }
        });
        unused.insert(claim.key.name.clone(), claim.clone());
        let look = |pod: Pod| {
            let groups = Placement::of(&pod).zip(PodVolumes::of(&pod));
            let (placement, volumes) = groups.expect("the client must decode what it keeps");
            let candidate = Candidate { meta: pod.meta(), placement, volumes };
            for name in volumes.claim_names(&candidate.meta.key.name) {
                if unused.get(&name).is_some_and(|claim| candidate.uses(claim)) {
                    unused.remove(&name);
                }
            }
        };
        self.client.for_each(namespace, look).await?;
        let is_unused = unused.remove(&claim.key.name).is_some();
        let mut known = self.unused.lock();
        known.retain(|_, listed| listed.elapsed() < LIST_SERVES);
        known.extend(unused.into_values().map(|claim| (claim.uid, began)));
        Ok(!is_unused)
    }
}
