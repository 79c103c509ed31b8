//! Which pods, PodGroups and claims a change may concern.

use std::sync::Arc;

use steersman_api::ObjectKey;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, Index, IndexValue, Lister, View};
use steersman_kinds::pod::{Phase, Placement};
use steersman_kinds::pod_device_claims::{DeviceClaim, DeviceClaimStatus, DeviceClaims};
use steersman_kinds::pod_group::{GroupClaimStatus, GroupClaims};

use super::controller::Indexes;
use super::deleted_pods::DeletedPods;
use super::facts::{ClaimantKind, owner};
use super::key::Key;
use super::{ClaimingGroup, ClaimingPod, SyncedClaim, beside, entry};
use crate::pod_claim::Named;

/// Queues pods and claims.
pub(super) struct Mapping {
    pub pods: Lister<ClaimingPod>,
    pub indexes: Indexes,
    /// `None` without the gate of claims of PodGroups.
    pub groups: Option<Groups>,
    pub queue: WorkQueue<Key>,
    pub deleted: Arc<DeletedPods>,
}

/// The PodGroups, and their indexes.
pub(super) struct Groups {
    pub groups: Lister<ClaimingGroup>,
    /// PodGroups by the namespace and the name of a claim that they use.
    pub by_claim: Index<ClaimingGroup>,
    /// PodGroups by the namespace and the name of a template that they name.
    pub by_template: Index<ClaimingGroup>,
    /// Pods by the namespace and the name of their PodGroup.
    pub pods: Index<ClaimingPod>,
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

    /// Queues the PodGroup if it has claims, the claims of a PodGroup that is gone, and the pods of the PodGroup: their claims
    /// may be those of the group.
    pub(super) fn group_changed(&self, change: &Change<ClaimingGroup>) {
        let [old, new] = [change.old(), change.new()];
        if let Some(gone) = old.filter(|old| new.is_none_or(|new| new.meta().uid != old.meta().uid))
            && uses_shared_claims(gone)
        {
            self.deleted.add(&gone.meta().uid);
            for claim in named_group_claims(gone) {
                self.queue.add(Key::Claim(claim));
            }
            // This sync forgets what was written for the PodGroup.
            self.queue.add(Key::Group(gone.meta().key.clone()));
        }
        if let Some(group) = new.filter(|group| uses_shared_claims(group) && !group.meta().is_deleting()) {
            self.queue.add(Key::Group(group.meta().key.clone()));
        }
        if let Some(groups) = &self.groups {
            self.queue_pods(&groups.pods, change.key());
        }
    }

    /// Queues the claim, and the pods and PodGroups that use or own it. The sync of a claim that is gone forgets what was
    /// written for it.
    pub(super) fn claim_changed(&self, change: &Change<SyncedClaim>) {
        let claim = change.newest().meta();
        self.queue.add(Key::Claim(claim.key.clone()));
        self.queue_pods(&self.indexes.pods_by_claim, &claim.key);
        if let Some(groups) = &self.groups {
            groups.queue(&groups.by_claim, &claim.key, &self.queue);
        }
        match owner(claim) {
            Some((ClaimantKind::Pod, pod, _)) => self.queue.wake(&Key::Pod(beside(&claim.key, pod))),
            Some((ClaimantKind::PodGroup, group, _)) => {
                let group = beside(&claim.key, group);
                self.queue.wake(&Key::Group(group.clone()));
                // The cache of PodGroups may have shown the claim's name to them earlier than this cache shows the claim.
                if let Some(groups) = &self.groups {
                    self.queue_pods(&groups.pods, &group);
                }
            }
            None => {}
        }
    }

    /// Queues the pods and PodGroups that name a template.
    pub(super) fn template_changed(&self, template: &ObjectKey) {
        self.queue_pods(&self.indexes.pods_by_template, template);
        if let Some(groups) = &self.groups {
            groups.queue(&groups.by_template, template, &self.queue);
        }
    }

    fn queue_pods(&self, index: &Index<ClaimingPod>, named: &ObjectKey) {
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

impl Groups {
    fn queue(&self, index: &Index<ClaimingGroup>, named: &ObjectKey, queue: &WorkQueue<Key>) {
        let value: IndexValue = entry(&named.namespace, &named.name);
        self.groups.for_each_meta_by_index(index, &value, |group| {
            if !group.is_deleting() {
                queue.add(Key::Group(group.key.clone()));
            }
        });
    }
}

fn uses_shared_claims(group: &View<ClaimingGroup>) -> bool {
    !group.get::<GroupClaims>().claims.is_empty()
}

/// The claims that a PodGroup uses, as far as their names are known.
pub(super) fn named_group_claims(group: &View<ClaimingGroup>) -> Vec<ObjectKey> {
    let generated = &group.get::<GroupClaimStatus>().generated;
    let claims = group.get::<GroupClaims>().list();
    let name = |claim: DeviceClaim| Named::of(&claim, generated).name().cloned();
    claims.filter_map(name).map(|name| beside(&group.meta().key, &name)).collect()
}

fn uses_claims(pod: &View<ClaimingPod>) -> bool {
    !pod.get::<DeviceClaims>().list().is_empty() || pod.get::<DeviceClaimStatus>().extended.is_some()
}
