//! The device taint eviction controller: deletes pods that use a device with a taint of the effect `NoExecute`, unless their
//! claim tolerates it.
//!
//! ```text
//! a pod is scheduled ──────────┐
//! a claim, its consumers ──────┼─> queue ─> when must the pod go? ─┬─ later: the queue's delay is the timer
//! a slice, the claims of its ──┘                                   └─ now: read it, set the condition, delete it
//! pool, their consumers
//! ```
//!
//! With the feature gate `DRADeviceTaintRules`, the taints of DeviceTaintRules count as well. The status of a rule tells how many
//! pods it is evicting, or would evict.
//!
//! A pod goes once the first taint of its devices is no longer tolerated, counted from the taint's `timeAdded`. So a failover
//! restarts no timer. Nothing but events about cancelled evictions depends on what the process remembers.

use std::sync::Arc;

use parking_lot::Mutex;
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::{IndexValue, Informer, View, keep};
use steersman_kinds::device_allocation::{AllocatedDevices, Reservations};
use steersman_kinds::device_taint_rule::{DeviceTaintRule, RuleStatus, TaintRule};
use steersman_kinds::pod::{Disruption, DisruptionReason, Placement, Pod};
use steersman_kinds::pod_device_claims::{DeviceClaimStatus, DeviceClaims};
use steersman_kinds::pod_group::Membership;
use steersman_kinds::resource_claim::ResourceClaim;
use steersman_kinds::resource_slice::{PublishedDevices, ResourceSlice, TaintedDevices};

use self::controller::{Caches, EvictionController, Indexes};
use self::mapping::Mapping;
use self::metrics::Metrics;
use self::rules::Rules;
use crate::resource_claim::GROUPS;

mod controller;
mod eviction;
mod key;
mod mapping;
mod metrics;
mod plan;
mod pod_syncs;
mod rule;
mod rule_syncs;
mod rules;
#[cfg(test)]
mod tests;

/// The registry's entry of the device taint eviction controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new(NAME, &[], construct)
    .options::<DeviceTaintEvictionOptions>()
    .gates(&[RULES_GATE, GROUPS])
    .rules(RULES);

options! {
    /// Settings of the device taint eviction controller.
    pub struct DeviceTaintEvictionOptions("DeviceTaintEvictionController") {
        /// How many pods are evicted at a time
        pub concurrent_syncs: Workers = Workers(8), "concurrent-device-taint-eviction-syncs", "ConcurrentSyncs";
    }
}

/// The controller's name, its queue's, and the source of its events.
const NAME: &str = "device-taint-eviction-controller";
/// The gate of DeviceTaintRules.
const RULES_GATE: &str = "DRADeviceTaintRules";

const READ: &[&str] = &["list", "watch"];
const RULES: &[Rule] = &[
    Rule::new(&[""], &["pods"], &["get", "list", "watch", "delete"]),
    Rule::new(&[""], &["pods/status"], &["patch"]),
    Rule::new(&["resource.k8s.io"], &["resourceclaims", "resourceslices"], READ),
    Rule::new(&["resource.k8s.io"], &["devicetaintrules"], READ)
        .because("For DeviceTaintRules, which need the feature gate of that name."),
    Rule::new(&["resource.k8s.io"], &["devicetaintrules/status"], &["patch"]),
];

keep! {
    /// What the controller reads of a cached pod.
    pub struct ClaimingPod: Pod => Placement, DeviceClaims, DeviceClaimStatus, Membership
}
keep! {
    /// What the controller reads of a pod before it evicts the pod.
    pub struct EvictedPod: Pod => Disruption, DisruptionReason
}
keep! {
    /// What the controller reads of a claim.
    pub struct AllocatedClaim: ResourceClaim => Reservations, AllocatedDevices
}
keep! {
    /// What the controller reads of a slice.
    pub struct TaintedSlice: ResourceSlice => TaintedDevices
}
keep! {
    /// What the controller reads of a slice for the status of DeviceTaintRules.
    pub struct PublishedSlice: ResourceSlice => TaintedDevices, PublishedDevices
}
keep! {
    /// What the controller reads of a DeviceTaintRule.
    pub struct CachedRule: DeviceTaintRule => TaintRule, RuleStatus
}

/// Makes the controller.
///
/// # Errors
/// A cache runs already without the fields that the controller reads, or its metrics are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let pods = context.informers.informer::<ClaimingPod>()?;
    let claims = context.informers.informer::<AllocatedClaim>()?;
    let slices = context.informers.informer::<TaintedSlice>()?;
    let with_rules = context.gates.enabled(RULES_GATE);
    let rules = with_rules.then(|| context.informers.informer::<CachedRule>()).transpose()?;
    let published = with_rules.then(|| context.informers.informer::<PublishedSlice>()).transpose()?;
    let metrics = Metrics::register(&context.metrics)?;
    let with_groups = context.gates.enabled(GROUPS);
    let indexes = Indexes {
        pods_by_group: with_groups.then(|| pods.add_index("podGroupPerPod", group_of_pod)),
        claims_by_pool: claims.add_index("devicePool", pools_of_claim),
        slices_by_pool: slices.add_index("devicePool", pool_of_slice),
    };
    let queue = context.queue(NAME);
    let cached_rules = rules.as_ref().map(|rules| {
        let (rules, evicted) = (rules.lister(), Mutex::default());
        Arc::new(Rules { rules, evicted })
    });
    let mapping = Arc::new(Mapping {
        pods: pods.lister(),
        claims: claims.lister(),
        slices: slices.lister(),
        rules: cached_rules.clone(),
        indexes,
        queue: queue.clone(),
    });
    pods.map({
        let mapping = Arc::clone(&mapping);
        move |change| mapping.pod_changed(change)
    });
    claims.map({
        let mapping = Arc::clone(&mapping);
        move |change| mapping.claim_changed(change)
    });
    if let Some(rules) = &rules {
        let mapping = Arc::clone(&mapping);
        rules.map(move |change| mapping.rule_changed(change));
    }
    slices.map(move |change| mapping.slice_changed(change));
    let caches = Caches {
        pods: pods.lister(),
        claims: claims.lister(),
        slices: slices.lister(),
        published: published.as_ref().map(Informer::lister),
        rules: cached_rules,
    };
    let controller = EvictionController::new(context, caches, indexes, queue.clone(), metrics);
    let synced =
        [pods.any(), claims.any(), slices.any()].into_iter().chain(rules.as_ref().map(Informer::any));
    let workers = context.options::<DeviceTaintEvictionOptions>().concurrent_syncs.0;
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(workers).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], synced))
}

/// The PodGroup of a pod with claims.
fn group_of_pod(pod: &View<ClaimingPod>) -> Vec<IndexValue> {
    let has_claims = !pod.get::<DeviceClaims>().list().is_empty();
    let group = pod.get::<Membership>().group.name.as_ref().filter(|_| has_claims);
    let namespace = &pod.meta().key.namespace;
    group.map(|name| IndexValue::Pair(namespace.clone(), name.as_arc().clone())).into_iter().collect()
}

fn pools_of_claim(claim: &View<AllocatedClaim>) -> Vec<IndexValue> {
    let devices = claim.get::<AllocatedDevices>().allocation.devices.results.iter();
    let mut pools: Vec<_> = devices.map(|device| pool(&device.driver, &device.pool)).collect();
    pools.sort();
    pools.dedup();
    pools
}

fn pool_of_slice(slice: &View<TaintedSlice>) -> Vec<IndexValue> {
    let TaintedDevices { driver, pool: of, .. } = slice.get();
    vec![pool(driver, &of.name)]
}

/// An index's entry for a pool of a driver.
fn pool(driver: &str, name: &str) -> IndexValue {
    IndexValue::Pair(driver.into(), name.into())
}
