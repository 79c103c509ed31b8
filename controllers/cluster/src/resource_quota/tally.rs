//! What the objects of one kind use of a quota.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use steersman_api::{ArcStr, Meta, ObjectKey, Quantity, Time};
use steersman_informer::{AnyInformer, IndexValue, Unreadable, View};
use steersman_kinds::persistent_volume_claim::{BetaStorageClass, StorageAllotment, StorageDemand};
use steersman_kinds::pod::Phase;
use steersman_kinds::pod_resources::{PodAllotment, PodDemand};
use steersman_kinds::resource_claim::{DeviceDemand, ExtendedResources};
use steersman_kinds::service::Exposure;
use steersman_kinds::shared::Shared;

use super::amounts::Amounts;
use super::measures::{
    has_ended, of_device_claim, of_ended_pod, of_pod, of_service, of_volume_claim, overdue_at,
    with_extended_resources,
};
use super::names::DeviceClasses;
use super::plan::Uncounted;
use super::scopes::Scopes;
use super::watches::Cache;
use super::{Gates, MeasuredDeviceClaim, MeasuredPod, MeasuredService, MeasuredVolumeClaim};

/// A sum, or why there is none.
pub(super) type Sum = Result<Amounts, Uncounted>;

/// Adds up what objects use, of some names.
struct Adding<'a> {
    names: &'a BTreeSet<ArcStr>,
    sum: Amounts,
}

impl<'a> Adding<'a> {
    fn new(names: &'a BTreeSet<ArcStr>) -> Self {
        Self { names, sum: Amounts::default() }
    }

    /// Adds what `times` objects use that use this each.
    fn add(&mut self, mut usage: Amounts, times: u32) {
        usage.retain(|name| self.names.contains(name));
        usage.iter().for_each(|(name, amount)| self.sum.add(name, amount * times));
    }
}

fn unreadable(kind: &str, error: &Unreadable) -> Uncounted {
    Uncounted::Failed(format!("{kind} {error}"))
}

/// Pods that ask for the same, and have the same.
struct Alike<'a> {
    one: &'a View<MeasuredPod>,
    /// How many of them have not ended.
    running: u32,
    /// How many of them have ended.
    ended: u32,
}

/// What the pods of a namespace use, and when the next one of them is overdue.
///
/// The pods of one template share their demand, so each demand is measured once.
pub(super) fn of_pods(
    cache: &Cache<MeasuredPod>,
    namespace: &ArcStr,
    names: &BTreeSet<ArcStr>,
    scopes: &Scopes<'_>,
    (gates, now): (Gates, Timestamp),
) -> (Sum, Option<Time>) {
    let pods = match cache.in_namespace(namespace) {
        Ok(pods) => pods,
        Err(error) => return (Err(unreadable("Pod", &error)), None),
    };
    let mut next_overdue: Option<Time> = None;
    let mut alike: HashMap<(usize, usize), Alike<'_>> = HashMap::new();
    for pod in &pods {
        let ended = has_ended(pod.meta(), pod.get::<Phase>(), now);
        if !ended && let Some(due) = overdue_at(pod.meta()) {
            next_overdue = Some(next_overdue.map_or(due, |next| next.min(due)));
        }
        let looks = (pod.get::<Shared<PodDemand>>().id(), pod.get::<Shared<PodAllotment>>().id());
        let alike = alike.entry(looks).or_insert(Alike { one: pod, running: 0, ended: 0 });
        if ended {
            alike.ended += 1;
        } else {
            alike.running += 1;
        }
    }
    let mut adding = Adding::new(names);
    for Alike { one: pod, running, ended } in alike.into_values() {
        let (demand, allotment) = (pod.get::<Shared<PodDemand>>(), pod.get::<Shared<PodAllotment>>());
        if scopes.have_pod(demand, allotment, gates) {
            adding.add(of_pod(demand, allotment, gates), running);
            adding.add(of_ended_pod(), ended);
        }
    }
    (Ok(adding.sum), next_overdue)
}

/// What the services of a namespace use. They are in no scope.
pub(super) fn of_services(
    cache: &Cache<MeasuredService>,
    namespace: &ArcStr,
    names: &BTreeSet<ArcStr>,
    scopes: &Scopes<'_>,
) -> Sum {
    let services = cache.in_namespace(namespace).map_err(|error| unreadable("Service", &error))?;
    let mut adding = Adding::new(names);
    for service in services.iter().filter(|_| scopes.is_empty()) {
        adding.add(of_service(service.get::<Shared<Exposure>>()), 1);
    }
    Ok(adding.sum)
}

/// What the PersistentVolumeClaims of a namespace use.
pub(super) fn of_volume_claims(
    cache: &Cache<MeasuredVolumeClaim>,
    namespace: &ArcStr,
    names: &BTreeSet<ArcStr>,
    scopes: &Scopes<'_>,
) -> Sum {
    let claims =
        cache.in_namespace(namespace).map_err(|error| unreadable("PersistentVolumeClaim", &error))?;
    let mut adding = Adding::new(names);
    for claim in &claims {
        let (demand, allotment) =
            (claim.get::<Shared<StorageDemand>>(), claim.get::<Shared<StorageAllotment>>());
        if scopes.have_volume_claim(demand, allotment) {
            let beta_class = &claim.get::<BetaStorageClass>().class;
            adding.add(of_volume_claim(demand, allotment, beta_class), 1);
        }
    }
    Ok(adding.sum)
}

/// What the ResourceClaims of a namespace use. They are in no scope. `pods` is the cache of pods, if extended resources are
/// counted.
pub(super) fn of_device_claims(
    (cache, pods): (&Cache<MeasuredDeviceClaim>, Option<&Cache<MeasuredPod>>),
    namespace: &ArcStr,
    names: &BTreeSet<ArcStr>,
    scopes: &Scopes<'_>,
    (classes, gates, now): (&DeviceClasses, Gates, Timestamp),
) -> Sum {
    let claims = cache.in_namespace(namespace).map_err(|error| unreadable("ResourceClaim", &error))?;
    let mut adding = Adding::new(names);
    for claim in claims.iter().filter(|_| scopes.is_empty()) {
        let mut usage = of_device_claim(claim.get::<Shared<DeviceDemand>>());
        if let Some(pods) = pods {
            let pod = pod_of(claim, cache, pods);
            let by_pod = pod.filter(|pod| !has_ended(pod.meta(), pod.get::<Phase>(), now));
            let by_pod = by_pod
                .map(|pod| of_pod(pod.get::<Shared<PodDemand>>(), pod.get::<Shared<PodAllotment>>(), gates));
            usage = with_extended_resources(usage, classes, &by_pod.unwrap_or_default());
        }
        adding.add(usage, 1);
    }
    Ok(adding.sum)
}

/// The pod for whose extended resources a claim was made. What that pod asks for is counted with the pod. `None` if the claim
/// only says so: then its devices count as any other's.
fn pod_of(
    claim: &View<MeasuredDeviceClaim>,
    claims: &Cache<MeasuredDeviceClaim>,
    pods: &Cache<MeasuredPod>,
) -> Option<View<MeasuredPod>> {
    let meta = claim.meta();
    let owner = meta.controller().filter(|_| claim.get::<ExtendedResources>().mark.0)?;
    if owner.kind != "Pod" || owner.api_version != "v1" {
        return None;
    }
    let pod = pods.get(&ObjectKey::new(meta.key.namespace.clone(), owner.name.clone())).ok().flatten()?;
    let is_its_own = match &pod.get::<Shared<PodAllotment>>().extended_claim {
        Some(named) => named.claim == meta.key.name,
        // The pod does not say so yet: then the first of the claims that were made for it is meant.
        None => is_first(meta, &pod.meta().uid, claims),
    };
    (pod.meta().uid == owner.uid && is_its_own).then_some(pod)
}

/// Whether a claim is the oldest of those that were made for the extended resources of a pod. Of several that are equally old,
/// the first by name is.
fn is_first(claim: &Meta, pod: &steersman_api::Uid, claims: &Cache<MeasuredDeviceClaim>) -> bool {
    let of_pod = IndexValue::Owner(claim.key.namespace.clone(), pod.clone());
    let Ok(siblings) = claims.by_controller(&of_pod) else { return false };
    let mut marked = siblings.iter().filter(|sibling| sibling.get::<ExtendedResources>().mark.0);
    let age = |meta: &Meta| (meta.created, meta.key.name.clone());
    marked.all(|sibling| age(claim) <= age(sibling.meta()))
}

/// The number of objects of a namespace, under each name that bounds it. They are in no scope.
pub(super) fn of_objects(
    cache: &dyn AnyInformer,
    namespace: &ArcStr,
    names: &BTreeSet<ArcStr>,
    scopes: &Scopes<'_>,
) -> Sum {
    let count = if scopes.is_empty() { cache.count_in(namespace) } else { 0 };
    let mut sum = Amounts::default();
    for name in names {
        sum.set(name.clone(), Quantity::new(i64::try_from(count).unwrap_or(i64::MAX)));
    }
    Ok(sum)
}
