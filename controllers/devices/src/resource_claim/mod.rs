//! The resource claim controller: makes ResourceClaims from the templates that pods name, reserves claims for pods that were
//! scheduled without kube-scheduler, and releases claims from pods that are done.
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
use steersman_informer::{IndexValue, View, keep};
use steersman_kinds::device_allocation::Reservations;
use steersman_kinds::pod::{Phase, Placement, Pod};
use steersman_kinds::pod_device_claims::{DeviceClaimStatus, DeviceClaims};
use steersman_kinds::resource_claim::{ClaimRequests, ExtendedResources, Origin, ResourceClaim};
use steersman_kinds::resource_claim_template::{ClaimTemplate, ResourceClaimTemplate, TemplateRequests};

use self::controller::{ClaimController, Indexes};
use self::deleted_pods::DeletedPods;
use self::mapping::Mapping;
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
    Rule::new(GROUP, &["resourceclaims/status", "resourceclaims/binding"], &["update", "patch"]),
    Rule::new(GROUP, &["resourceclaimtemplates"], &["list", "watch"]),
];

/// The gate of requests with alternatives.
const ALTERNATIVES: &str = "DRAPrioritizedList";
/// The gate of claims of PodGroups, which this program does not have.
const GROUPS: &str = "DRAWorkloadResourceClaims";

/// The source of the controller's events, and the name of its queue.
const NAME: &str = "resource_claim";

keep! {
    /// What the controller reads of a pod.
    pub struct ClaimingPod: Pod => Placement, Phase, DeviceClaims, DeviceClaimStatus
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
    if context.gates.enabled(GROUPS) {
        tracing::warn!(
            gate = GROUPS,
            "This version does not have the feature: it makes and reserves claims for pods only, not for PodGroups"
        );
    }
    let pods = context.informers.informer::<ClaimingPod>()?;
    let claims = context.informers.informer::<SyncedClaim>()?;
    let templates = context.informers.informer::<CachedTemplate>()?;
    let metrics = Metrics::register(&context.metrics, claims.lister())?;
    let indexes = Indexes {
        pods_by_claim: pods.add_index("deviceClaim", named_claims),
        pods_by_template: pods.add_index("deviceClaimTemplate", named_templates),
        claims_by_pod: claims.add_index("owningPod", owning_pods),
    };
    let queue = context.queue(NAME);
    let deleted = Arc::new(DeletedPods::default());
    let mapping = Arc::new(Mapping {
        pods: pods.lister(),
        indexes,
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
    templates.map(move |change| {
        if let Some(template) = change.new() {
            mapping.template_changed(&template.meta().key);
        }
    });
    let caches = [pods.any(), claims.any(), templates.any()];
    let controller = ClaimController::new(context, (&pods, &claims, &templates), indexes, deleted, metrics);
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

fn owning_pods(claim: &View<SyncedClaim>) -> Vec<IndexValue> {
    facts::owning_pod(claim.meta()).map(|(_, uid)| uid.clone().into()).into_iter().collect()
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
