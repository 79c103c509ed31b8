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
//! A pod goes once the first taint of its devices is no longer tolerated, counted from the taint's `timeAdded`. So a failover
//! restarts no timer. Nothing but events about cancelled evictions depends on what the process remembers.

use std::sync::Arc;

use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::{IndexValue, View, keep};
use steersman_kinds::device_allocation::{AllocatedDevices, Reservations};
use steersman_kinds::pod::{Disruption, DisruptionReason, Placement, Pod};
use steersman_kinds::pod_device_claims::{DeviceClaimStatus, DeviceClaims};
use steersman_kinds::resource_claim::ResourceClaim;
use steersman_kinds::resource_slice::{ResourceSlice, TaintedDevices};

use self::controller::{EvictionController, Indexes};
use self::mapping::Mapping;
use self::metrics::Metrics;

mod controller;
mod eviction;
mod mapping;
mod metrics;
mod plan;
#[cfg(test)]
mod tests;

/// The registry's entry of the device taint eviction controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new(NAME, &[], construct)
    .options::<DeviceTaintEvictionOptions>()
    .gates(&[RULES_GATE])
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
/// The gate of DeviceTaintRules, which this program does not have.
const RULES_GATE: &str = "DRADeviceTaintRules";

const READ: &[&str] = &["list", "watch"];
const RULES: &[Rule] = &[
    Rule::new(&[""], &["pods"], &["get", "list", "watch", "delete"]),
    Rule::new(&[""], &["pods/status"], &["patch"]),
    Rule::new(&["resource.k8s.io"], &["resourceclaims", "resourceslices"], READ),
];

keep! {
    /// What the controller reads of a cached pod.
    pub struct ClaimingPod: Pod => Placement, DeviceClaims, DeviceClaimStatus
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

/// Makes the controller.
///
/// # Errors
/// A cache runs already without the fields that the controller reads, or its metrics are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    if context.gates.enabled(RULES_GATE) {
        tracing::warn!(
            gate = RULES_GATE,
            "This version does not have the feature: it heeds the taints of ResourceSlices, not those of DeviceTaintRules"
        );
    }
    let pods = context.informers.informer::<ClaimingPod>()?;
    let claims = context.informers.informer::<AllocatedClaim>()?;
    let slices = context.informers.informer::<TaintedSlice>()?;
    let metrics = Metrics::register(&context.metrics)?;
    let indexes = Indexes {
        claims_by_pool: claims.add_index("devicePool", pools_of_claim),
        slices_by_pool: slices.add_index("devicePool", pool_of_slice),
    };
    let queue = context.queue(NAME);
    let mapping =
        Arc::new(Mapping { claims: claims.lister(), slices: slices.lister(), indexes, queue: queue.clone() });
    pods.map({
        let mapping = Arc::clone(&mapping);
        move |change| mapping.pod_changed(change)
    });
    claims.map({
        let mapping = Arc::clone(&mapping);
        move |change| mapping.claim_changed(change)
    });
    slices.map(move |change| mapping.slice_changed(change));
    let caches = [pods.any(), claims.any(), slices.any()];
    let listers = (pods.lister(), claims.lister(), slices.lister());
    let controller = EvictionController::new(context, listers, indexes, metrics);
    let workers = context.options::<DeviceTaintEvictionOptions>().concurrent_syncs.0;
    let syncs = QueueLoop::new(Arc::new(controller), queue).workers(workers).give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], caches))
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
