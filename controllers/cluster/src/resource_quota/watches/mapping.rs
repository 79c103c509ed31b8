//! Which changes of objects change what quotas use.

use steersman_informer::{Change, MetaChange, View};
use steersman_kinds::device_class::ExtendedResource;
use steersman_kinds::persistent_volume_claim::{BetaStorageClass, StorageAllotment, StorageDemand};
use steersman_kinds::pod::Phase;
use steersman_kinds::pod_resources::{PodAllotment, PodDemand};
use steersman_kinds::resource_claim::{DeviceDemand, ExtendedResources};
use steersman_kinds::service::Exposure;
use steersman_kinds::shared::Shared;
use tokio::sync::Notify;

use super::super::measures::{has_ended, is_best_effort, of_pod as usage_of_pod, overdue_at};
use super::super::names::Measured;
use super::super::replenish::{Replenish, When};
use super::super::scopes::has_deadline;
use super::super::{
    Gates, MeasuredDeviceClaim, MeasuredDeviceClass, MeasuredPod, MeasuredService, MeasuredVolumeClaim,
};

/// When the quotas of an object are counted anew. `is_alike` tells whether two states of the object use the same. `None`: not
/// because of this change.
fn when<S: steersman_informer::Selection>(
    change: &Change<S>,
    is_alike: impl FnOnce(&View<S>, &View<S>) -> bool,
) -> Option<When> {
    match change {
        // The kind's first list is followed by a count of all quotas that name it.
        Change::Added { initial: true, .. } | Change::Resync { .. } => None,
        Change::Added { initial: false, .. } => Some(When::AtRest),
        Change::Updated { old, new } if old.meta().uid != new.meta().uid => Some(When::Now),
        Change::Updated { old, new } => (!is_alike(old, new)).then_some(When::Now),
        Change::Deleted { .. } => Some(When::Now),
    }
}

pub(super) fn of_pod(change: &Change<MeasuredPod>, quotas: &Replenish, gates: Gates) {
    let namespace = &change.key().namespace;
    if let Some(when) = when(change, |old, new| is_pod_alike(old, new, quotas, gates)) {
        quotas.in_namespace(namespace, &Measured::Pods, when);
    }
    if let Change::Updated { old, new } = change
        && let Some(due) = overdue_at(new.meta()).filter(|due| overdue_at(old.meta()) != Some(*due))
    {
        quotas.in_namespace(namespace, &Measured::Pods, When::After(due));
    }
}

/// Whether two states of a pod use the same, as far as no time passes.
fn is_pod_alike(old: &View<MeasuredPod>, new: &View<MeasuredPod>, quotas: &Replenish, gates: Gates) -> bool {
    let now = quotas.now();
    let ended = |pod: &View<MeasuredPod>| has_ended(pod.meta(), pod.get::<Phase>(), now);
    let parts = |pod: &View<MeasuredPod>| {
        (pod.get::<Shared<PodDemand>>().clone(), pod.get::<Shared<PodAllotment>>().clone())
    };
    let (was, is) = (parts(old), parts(new));
    let ((had_ended, has_ended), is_same) = ((ended(old), ended(new)), was == is);
    if is_same || has_ended {
        return had_ended == has_ended;
    }
    let looks = |(demand, allotment): &(Shared<PodDemand>, Shared<PodAllotment>)| {
        let best_effort = is_best_effort(demand, allotment, gates);
        let claim = allotment.extended_claim.clone();
        (usage_of_pod(demand, allotment, gates), has_deadline(demand), best_effort, claim)
    };
    had_ended == has_ended && looks(&was) == looks(&is)
}

pub(super) fn of_service(change: &Change<MeasuredService>, quotas: &Replenish) {
    let parts = |service: &View<MeasuredService>| service.get::<Shared<Exposure>>().clone();
    if let Some(when) = when(change, |old, new| parts(old) == parts(new)) {
        quotas.in_namespace(&change.key().namespace, &Measured::Services, when);
    }
}

pub(super) fn of_volume_claim(change: &Change<MeasuredVolumeClaim>, quotas: &Replenish) {
    let parts = |claim: &View<MeasuredVolumeClaim>| {
        let (demand, allotment) =
            (claim.get::<Shared<StorageDemand>>(), claim.get::<Shared<StorageAllotment>>());
        (demand.clone(), allotment.clone(), claim.get::<BetaStorageClass>().class.clone())
    };
    if let Some(when) = when(change, |old, new| parts(old) == parts(new)) {
        quotas.in_namespace(&change.key().namespace, &Measured::VolumeClaims, when);
    }
}

pub(super) fn of_device_claim(change: &Change<MeasuredDeviceClaim>, quotas: &Replenish) {
    let parts = |claim: &View<MeasuredDeviceClaim>| {
        let owner = claim.meta().controller().map(|owner| owner.uid.clone());
        (claim.get::<Shared<DeviceDemand>>().clone(), claim.get::<ExtendedResources>().mark, owner)
    };
    if let Some(when) = when(change, |old, new| parts(old) == parts(new)) {
        quotas.in_namespace(&change.key().namespace, &Measured::DeviceClaims, when);
    }
}

/// Device classes change what the names of quotas mean.
pub(super) fn of_device_class(change: &Change<MeasuredDeviceClass>, quotas: &Replenish, changed: &Notify) {
    let resource = |class: &View<MeasuredDeviceClass>| class.get::<ExtendedResource>().name.clone();
    let class = &change.key().name;
    match change {
        Change::Deleted { .. } => quotas.change_classes(|classes| classes.remove(class)),
        Change::Added { object: new, .. } | Change::Updated { new, .. } | Change::Resync { object: new } => {
            quotas.change_classes(|classes| classes.insert(class, resource(new).as_arc()));
        }
    }
    let is_alike =
        |old: &View<MeasuredDeviceClass>, new: &View<MeasuredDeviceClass>| resource(old) == resource(new);
    if when(change, is_alike).is_some() {
        changed.notify_one();
        quotas.everywhere(&[Measured::Pods].into());
    }
}

/// Only creations and deletions change the number of objects.
pub(super) fn of_object(change: MetaChange<'_>, kind: &Measured, quotas: &Replenish) {
    let (namespace, when) = match change {
        MetaChange::Added { meta, initial: false } => (&meta.key.namespace, When::AtRest),
        MetaChange::Deleted { last } => (&last.key.namespace, When::Now),
        _ => return,
    };
    quotas.in_namespace(namespace, kind, when);
}
