//! Which pods and claims a change may concern.

use std::sync::Arc;

use steersman_api::ObjectKey;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, IndexValue, Lister, View};
use steersman_kinds::pod::{Phase, Placement};
use steersman_kinds::pod_device_claims::{DeviceClaimStatus, DeviceClaims};

use super::controller::Indexes;
use super::deleted_pods::DeletedPods;
use super::facts::owning_pod;
use super::key::Key;
use super::{ClaimingPod, SyncedClaim, beside, entry};
use crate::pod_claim::Named;

/// Queues pods and claims.
pub(super) struct Mapping {
    pub pods: Lister<ClaimingPod>,
    pub indexes: Indexes,
    pub queue: WorkQueue<Key>,
    pub deleted: Arc<DeletedPods>,
}

impl Mapping {
    /// Queues the pod if it may need claims, and the claims of a pod that needs them no more.
    pub(super) fn pod_changed(&self, change: &Change<ClaimingPod>) {
        let [old, new] = [change.old(), change.new()];
        if let Some(gone) = old.filter(|old| new.is_none_or(|new| new.meta().uid != old.meta().uid))
            && uses_claims(gone)
        {
            self.deleted.add(&gone.meta().uid);
            self.queue_claims(gone);
            // This sync forgets what was written for the pod.
            self.queue.add(Key::Pod(gone.meta().key.clone()));
        }
        let Some(pod) = new.filter(|pod| uses_claims(pod)) else { return };
        let is_deleting = pod.meta().is_deleting();
        let is_scheduled = !pod.get::<Placement>().node.is_empty();
        if pod.get::<Phase>().is_terminal() || (is_deleting && !is_scheduled) {
            self.queue_claims(pod);
        }
        if !is_deleting && !pod.get::<DeviceClaims>().list().is_empty() {
            self.queue.add(Key::Pod(pod.meta().key.clone()));
        }
    }

    /// Queues the claim, and the pods that use or own it. The sync of a claim that is gone forgets what was written for it.
    pub(super) fn claim_changed(&self, change: &Change<SyncedClaim>) {
        let claim = change.newest().meta();
        self.queue.add(Key::Claim(claim.key.clone()));
        self.queue_pods(&self.indexes.pods_by_claim, &claim.key);
        if let Some((pod, _)) = owning_pod(claim) {
            self.queue.wake(&Key::Pod(beside(&claim.key, pod)));
        }
    }

    /// Queues the pods that name a template.
    pub(super) fn template_changed(&self, template: &ObjectKey) {
        self.queue_pods(&self.indexes.pods_by_template, template);
    }

    fn queue_pods(&self, index: &steersman_informer::Index<ClaimingPod>, named: &ObjectKey) {
        let value: IndexValue = entry(&named.namespace, &named.name);
        self.pods.for_each_meta_by_index(index, &value, |pod| {
            if !pod.is_deleting() {
                self.queue.add(Key::Pod(pod.key.clone()));
            }
        });
    }

    fn queue_claims(&self, pod: &View<ClaimingPod>) {
        let status = pod.get::<DeviceClaimStatus>();
        let of_spec = pod.get::<DeviceClaims>().list().iter();
        let names = of_spec.filter_map(|claim| Named::of(claim, status.generated()).name());
        // kube-scheduler made this one. It is not in the spec.
        let extended = status.extended.as_ref().map(|extended| &extended.claim);
        for name in names.chain(extended) {
            self.queue.add(Key::Claim(beside(&pod.meta().key, name)));
        }
    }
}

fn uses_claims(pod: &View<ClaimingPod>) -> bool {
    !pod.get::<DeviceClaims>().list().is_empty() || pod.get::<DeviceClaimStatus>().extended.is_some()
}
