//! The resource claim controller: makes ResourceClaims from the templates that pods name, reserves claims for pods that were
//! scheduled without kube-scheduler, and releases claims from pods that are done.
//!
//! With the feature gate `DRAWorkloadResourceClaims`, the same goes for PodGroups and the claims that their pods share.
//!
//! ```text
//! pods, claims, templates ─> queue "resource_claim" ─┬─ a pod:   create claims ─> apply the pod's status ─> reserve
//!                                                    └─ a claim: ask for doubtful consumers ─> release, deallocate
//!                                                                ─> remove the finalizer ─> delete it, if it was made for a pod
//! ```
//!
//! After the last consumer a claim loses its devices in two writes, first of its status and then of its finalizer. If the
//! process ends between the two, the finalizer stays until the claim is allocated again or deleted.

use std::sync::Arc;

use steersman_api::ObjectKey;
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::{IndexValue, Informer, View, keep};
use steersman_kinds::device_allocation::Reservations;
use steersman_kinds::pod::{Phase, Placement, Pod};
use steersman_kinds::pod_device_claims::{DeviceClaimStatus, DeviceClaims};
use steersman_kinds::pod_group::{GroupClaimStatus, GroupClaims, Membership, PodGroup};
use steersman_kinds::resource_claim::{ClaimRequests, ExtendedResources, Origin, ResourceClaim};
use steersman_kinds::resource_claim_template::{ClaimTemplate, ResourceClaimTemplate, TemplateRequests};

use self::controller::{ClaimController, Indexes};
use self::deleted_pods::DeletedPods;
use self::mapping::{Groups, Mapping, named_group_claims};
use self::metrics::Metrics;
use crate::pod_claim::Named;

mod claim_plan;
mod claim_syncs;
mod controller;
mod deleted_pods;
mod draft;
mod facts;
mod key;
mod mapping;
mod metrics;
mod pod_plan;
mod pod_syncs;
#[cfg(test)]
mod tests;

/// The registry's entry of the resource claim controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("resourceclaim-controller", &["resource-claim-controller"], construct)
        .options::<ResourceClaimOptions>()
        .gates(&[ALTERNATIVES, GROUPS])
        .rules(RULES);

options! {
    /// Settings of the resource claim controller.
    pub struct ResourceClaimOptions("ResourceClaimController") {
        /// How many pods and claims are synced at a time
        pub concurrent_syncs: Workers = Workers(50), "concurrent-resourceclaim-syncs", "ConcurrentSyncs";
    }
}

const GROUP: &[&str] = &["resource.k8s.io"];
const RULES: &[Rule] = &[
    Rule::new(&[""], &["pods"], &["get", "list", "watch"]),
    Rule::new(&[""], &["pods/status"], &["patch"]),
    Rule::new(&[""], &["pods/finalizers"], &["update"]),
    Rule::new(GROUP, &["resourceclaims"], &["get", "list", "watch", "create", "patch", "delete"]),
    Rule::new(GROUP, &["resourceclaims/status", "resourceclaims/binding"], &["patch"]),
    Rule::new(GROUP, &["resourceclaimtemplates"], &["list", "watch"]),
    Rule::new(&["scheduling.k8s.io"], &["podgroups"], &["get", "list", "watch"])
        .because("For claims of PodGroups, which need the feature gate DRAWorkloadResourceClaims."),
    Rule::new(&["scheduling.k8s.io"], &["podgroups/status"], &["patch"]),
];

/// The gate of requests with alternatives.
const ALTERNATIVES: &str = "DRAPrioritizedList";
/// The gate of claims of PodGroups.
pub(crate) const GROUPS: &str = "DRAWorkloadResourceClaims";

/// Whether PodGroups may have claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WithGroups {
    Yes,
    No,
}

/// The source of the controller's events, and the name of its queue.
const NAME: &str = "resource_claim";

keep! {
    /// What the controller reads of a pod.
    pub struct ClaimingPod: Pod => Placement, Phase, DeviceClaims, DeviceClaimStatus, Membership
}
keep! {
    /// What the controller reads of a PodGroup.
    pub struct ClaimingGroup: PodGroup => GroupClaims, GroupClaimStatus
}
keep! {
    /// What the controller reads of a claim.
    pub struct SyncedClaim: ResourceClaim => ClaimRequests, Origin, ExtendedResources, Reservations
}
keep! {
    /// What the controller reads of a template.
    pub struct CachedTemplate: ResourceClaimTemplate => ClaimTemplate, TemplateRequests
}

/// Makes the controller.
///
/// # Errors
/// A cache runs already without the fields that the controller reads, or its metrics are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let pods = context.informers.informer::<ClaimingPod>()?;
    let claims = context.informers.informer::<SyncedClaim>()?;
    let templates = context.informers.informer::<CachedTemplate>()?;
    let metrics = Metrics::register(&context.metrics, claims.lister())?;
    let indexes = Indexes {
        pods_by_claim: pods.add_index("deviceClaim", named_claims),
        pods_by_template: pods.add_index("deviceClaimTemplate", named_templates),
        claims_by_owner: claims.add_index("owningClaimant", owners),
    };
    let groups = context.gates.enabled(GROUPS).then(|| context.informers.informer::<ClaimingGroup>());
    let groups = groups.transpose()?;
    let queue = context.queue(NAME);
    let deleted = Arc::new(DeletedPods::default());
    let mapping = Arc::new(Mapping {
        pods: pods.lister(),
        indexes,
        groups: groups.as_ref().map(|groups| Groups {
            groups: groups.lister(),
            by_claim: groups.add_index("deviceClaim", |group| {
                let claims = named_group_claims(group).into_iter();
                distinct(claims.map(|claim| entry(&claim.namespace, &claim.name)))
            }),
            by_template: groups.add_index("deviceClaimTemplate", named_group_templates),
            pods: pods.add_index("podGroup", groups_of),
        }),
        queue: queue.clone(),
        deleted: Arc::clone(&deleted),
    });
    pods.map({
        let mapping = Arc::clone(&mapping);
        move |change| mapping.pod_changed(change)
    });
    claims.map({
        let mapping = Arc::clone(&mapping);
        move |change| mapping.claim_changed(change)
    });
    if let Some(groups) = &groups {
        let mapping = Arc::clone(&mapping);
        groups.map(move |change| mapping.group_changed(change));
    }
    templates.map(move |change| {
        if let Some(template) = change.new() {
            mapping.template_changed(&template.meta().key);
        }
    });
    let caches =
        [pods.any(), claims.any(), templates.any()].into_iter().chain(groups.as_ref().map(Informer::any));
    let listed = (&pods, &claims, &templates);
    let controller = ClaimController::new(context, listed, groups.as_ref(), indexes, deleted, metrics);
    let workers = context.options::<ResourceClaimOptions>().concurrent_syncs.0;
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(workers).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], caches))
}

/// An index's entry for an object of this namespace.
fn entry(namespace: &str, name: &str) -> IndexValue {
    IndexValue::Pair(namespace.into(), name.into())
}

/// The claims that a pod uses, as far as their names are known.
fn named_claims(pod: &View<ClaimingPod>) -> Vec<IndexValue> {
    let generated = pod.get::<DeviceClaimStatus>().generated();
    let names =
        pod.get::<DeviceClaims>().list().iter().filter_map(|claim| Named::of(claim, generated).name());
    distinct(names.map(|name| entry(&pod.meta().key.namespace, name)))
}

fn named_templates(pod: &View<ClaimingPod>) -> Vec<IndexValue> {
    let names = pod.get::<DeviceClaims>().list().iter().filter_map(|claim| claim.template.as_ref());
    distinct(names.map(|name| entry(&pod.meta().key.namespace, name)))
}

fn named_group_templates(group: &View<ClaimingGroup>) -> Vec<IndexValue> {
    let names = group.get::<GroupClaims>().claims.iter().filter_map(|claim| claim.template.as_ref());
    distinct(names.map(|name| entry(&group.meta().key.namespace, name)))
}

/// The PodGroup of a pod with claims.
fn groups_of(pod: &View<ClaimingPod>) -> Vec<IndexValue> {
    let has_claims = !pod.get::<DeviceClaims>().list().is_empty();
    let group = pod.get::<Membership>().group.name.as_ref().filter(|_| has_claims);
    group.map(|name| entry(&pod.meta().key.namespace, name)).into_iter().collect()
}

fn owners(claim: &View<SyncedClaim>) -> Vec<IndexValue> {
    facts::owner(claim.meta()).map(|(_, _, uid)| uid.clone().into()).into_iter().collect()
}

fn distinct(entries: impl Iterator<Item = IndexValue>) -> Vec<IndexValue> {
    let mut entries: Vec<_> = entries.collect();
    entries.sort();
    entries.dedup();
    entries
}

/// The key of an object beside another one.
fn beside(other: &ObjectKey, name: &str) -> ObjectKey {
    ObjectKey { namespace: other.namespace.clone(), name: name.into() }
}
