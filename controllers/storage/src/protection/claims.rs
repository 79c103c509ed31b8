//! The protection of PersistentVolumeClaims from the deletion of claims that pods use.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::{ArcStr, Meta, ObjectKey};
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

/// For how long one list of a namespace's pods serves the claims that were queued when it began. Upstream's list serves the
/// claims that were queued before it for as long as the worker is busy with them.
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
    let waiting = Arc::<Mutex<Waiting>>::default();
    claims.map({
        let (queue, waiting) = (queue.clone(), Arc::clone(&waiting));
        move |change| {
            let key = change.key();
            {
                let mut waiting = waiting.lock();
                match change.new() {
                    Some(claim) if awaits_removal(claim.meta()) => waiting.enter(key.clone()),
                    _ => _ = waiting.leave(key),
                }
            }
            if needs_sync(change, FINALIZER) {
                queue.add(key.clone());
            }
        }
    });
    pods.map({
        let (claims, queue, waiting) = (claims.lister(), queue.clone(), Arc::clone(&waiting));
        move |change| {
            for pod in released(change) {
                for name in claim_names_of(pod) {
                    let mut claim = pod.meta().key.clone();
                    claim.name = name;
                    // Holds the lock during the look at the cache: the mapping of a claim that goes now then removes the entry.
                    let mut waiting = waiting.lock();
                    if claims.meta(&claim).is_some_and(|claim| awaits_removal(&claim)) {
                        waiting.enter(claim.clone());
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
        waiting,
    };
    let controller = Protection { objects: claims.lister(), client: Client::new(client), guard };
    let syncs = QueueLoop::new(Arc::new(controller), queue).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [claims.any(), pods.any()]))
}

/// Whether a claim is being deleted and still has the finalizer.
fn awaits_removal(claim: &Meta) -> bool {
    claim.is_deleting() && claim.has_finalizer(FINALIZER)
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
        let is_finished = self.meta.is_deleting() && self.meta.deletion_grace() == Some(0);
        let is_made_for_it = !is_finished && claim.is_controlled_by(&self.meta.uid);
        let mut volumes = self.volumes.volumes.0.iter().filter(|volume| match volume {
            VolumeUse::Ephemeral(_) => is_made_for_it,
            _ => true,
        });
        volumes.any(|volume| volume.claim_name(&self.meta.key.name).as_ref() == Some(&claim.key.name))
    }
}

/// The claims whose keys were queued for the removal of their finalizer, and which no sync has judged since.
///
/// A claim that is queued again while it waits counts as queued at the later time. A claim leaves when a sync judges it, or when
/// its finalizer or the claim itself is gone.
#[derive(Default)]
struct Waiting {
    claims: HashMap<ObjectKey, Turn>,
    /// The number of the next turn.
    next: u64,
}

/// A claim's place among those that wait.
struct Turn {
    number: u64,
    /// When a list of the pods began that showed no user of the claim. The list began after the claim was queued.
    found_unused: Option<Instant>,
}

impl Waiting {
    /// Adds a claim that is queued now.
    fn enter(&mut self, claim: ObjectKey) {
        let number = self.next;
        self.next += 1;
        self.claims.insert(claim, Turn { number, found_unused: None });
    }

    /// Removes a claim. Returns whether a recent list of the pods showed no user of it.
    fn leave(&mut self, claim: &ObjectKey) -> bool {
        let began = self.claims.remove(claim).and_then(|turn| turn.found_unused);
        began.is_some_and(|began| began.elapsed() < LIST_SERVES)
    }

    /// Records that a list of the pods showed no user of a claim. `next` is what [`Waiting::next`] was when the list began.
    fn found_unused(&mut self, claim: &ObjectKey, next: u64, began: Instant) {
        if let Some(turn) = self.claims.get_mut(claim)
            && turn.number < next
        {
            turn.found_unused = Some(began);
        }
    }

    /// Forgets what lists have shown.
    fn forget_lists(&mut self) {
        self.claims.values_mut().for_each(|turn| turn.found_unused = None);
    }
}

/// Knows the pods that use claims.
struct ClaimGuard {
    pods: Lister<ClaimingPod>,
    by_claim: Index<ClaimingPod>,
    claims: Lister<ProtectedClaim>,
    by_namespace: Index<ProtectedClaim>,
    client: Client<Pod>,
    /// When many claims of a namespace are deleted, one list of its pods serves all of them that wait.
    waiting: Arc<Mutex<Waiting>>,
}

impl Guard for ClaimGuard {
    type Cached = ProtectedClaim;
    const FINALIZER: &'static str = FINALIZER;

    fn term_begins(&self) {
        self.waiting.lock().forget_lists();
    }

    fn is_used(&self, claim: &View<ProtectedClaim>) -> Result<bool, SyncError> {
        let meta = claim.meta();
        let value = IndexValue::Pair(meta.key.namespace.clone(), meta.key.name.clone());
        let pods = self.pods.by_index(&self.by_claim, &value);
        let pods = pods.map_err(|pod| SyncError::Unreadable(format!("Pod {}", pod.key)))?;
        let is_used = pods.iter().any(|pod| Candidate::cached(pod).uses(meta));
        if is_used {
            self.waiting.lock().leave(&meta.key);
        }
        Ok(is_used)
    }

    async fn is_used_now(&self, claim: &Meta) -> Result<bool, SyncError> {
        let next = {
            let mut waiting = self.waiting.lock();
            if waiting.leave(&claim.key) {
                return Ok(false);
            }
            waiting.next
        };
        // A list that begins now serves the claims that wait already, and no claim that is queued later. A kubelet starts a pod
        // with a claim that is being deleted as long as the claim has its finalizer, so an older list tells nothing.
        let began = Instant::now();
        let mut unused: HashMap<ArcStr, Meta> = HashMap::new();
        let namespace = &claim.key.namespace;
        self.claims.for_each_meta_by_index(&self.by_namespace, &namespace.clone().into(), |other| {
            if awaits_removal(other) {
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
        let mut waiting = self.waiting.lock();
        unused.values().for_each(|other| waiting.found_unused(&other.key, next, began));
        Ok(!is_unused)
    }
}
