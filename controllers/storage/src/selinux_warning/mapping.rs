//! Which pods a change may concern.

use std::sync::Arc;

use parking_lot::Mutex;
use steersman_api::ObjectKey;
use steersman_informer::wire::Selection;
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, Index, IndexValue, Lister, View};
use steersman_kinds::csi_driver::SelinuxMount;
use steersman_kinds::persistent_volume::VolumeClaimRef;
use steersman_kinds::persistent_volume_claim::{Binding, ClaimedVolume};
use steersman_kinds::pod::Phase;

use super::volumes::Volumes;
use super::{LabelledPod, MountedClaim, MountedVolume, MountingDriver};

/// Queues pods.
pub(super) struct Mapping {
    pub pods: Lister<LabelledPod>,
    /// Pods by the namespace and the name of a claim that they use.
    pub pods_by_claim: Index<LabelledPod>,
    pub used: Arc<Mutex<Volumes>>,
    pub queue: WorkQueue<ObjectKey>,
}

impl Mapping {
    /// Queues a pod that is new, has ended or is gone. Nothing else that the controller reads of it changes, except that users
    /// may add ephemeral containers: as upstream, the controller does not look at the pod again then.
    pub(super) fn pod(&self, change: &Change<LabelledPod>) {
        let matters = match change {
            Change::Updated { old, new } => {
                let has_ended = |pod: &View<LabelledPod>| pod.get::<Phase>().is_terminal();
                old.meta().uid != new.meta().uid || (has_ended(new) && !has_ended(old))
            }
            _ => true,
        };
        if matters {
            self.queue.add(change.key().clone());
        }
    }

    /// Queues the pods that use a claim, once the claim is bound.
    pub(super) fn claim(&self, change: &Change<MountedClaim>) {
        let volume = |claim: &View<MountedClaim>| {
            let is_bound = claim.get::<Binding>().phase == "Bound";
            let name = &claim.get::<ClaimedVolume>().name;
            (is_bound && !name.is_empty()).then(|| (claim.meta().uid.clone(), name.clone()))
        };
        if_new(change, volume, |claim, _| self.queue_users(&claim.meta().key));
    }

    /// Queues the pods that use the claim of a volume, once the volume is bound to it.
    pub(super) fn volume(&self, change: &Change<MountedVolume>) {
        let claim = |volume: &View<MountedVolume>| {
            volume.get::<VolumeClaimRef>().claim.clone().filter(|claim| !claim.uid.is_empty())
        };
        if_new(change, claim, |_, claim| {
            self.queue_users(&ObjectKey::new(&*claim.namespace, claim.name));
        });
    }

    /// Queues the pods that use volumes of a driver, if that may now be mounted with a label, or no longer.
    pub(super) fn driver(&self, change: &Change<MountingDriver>) {
        let supports = |driver: Option<&View<MountingDriver>>| {
            driver.is_some_and(|driver| driver.get::<SelinuxMount>().supported)
        };
        let is_resync = matches!(change, Change::Resync { .. });
        if is_resync || supports(change.old()) != supports(change.new()) {
            let pods = self.used.lock().pods_of_driver(&change.key().name);
            pods.into_iter().for_each(|pod| self.queue.add(pod));
        }
    }

    fn queue_users(&self, claim: &ObjectKey) {
        let value = IndexValue::Pair(claim.namespace.clone(), claim.name.clone());
        self.pods.for_each_meta_by_index(&self.pods_by_claim, &value, |pod| self.queue.add(pod.key.clone()));
    }
}

/// Calls `then` if `fact` holds of an object, and did not hold, or was another one, before the change.
fn if_new<S: Selection, T: PartialEq>(
    change: &Change<S>,
    fact: impl Fn(&View<S>) -> Option<T>,
    then: impl FnOnce(&View<S>, T),
) {
    let before = match change {
        Change::Updated { old, .. } => fact(old),
        _ => None,
    };
    if let Some(object) = change.new()
        && let Some(now) = fact(object)
        && before.as_ref() != Some(&now)
    {
        then(object, now);
    }
}
