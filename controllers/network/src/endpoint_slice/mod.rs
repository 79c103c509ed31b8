//! The EndpointSlice controller: writes the addresses and ports of each service's pods into EndpointSlices.
//!
//! ```text
//! pod ─> services that select it (membership) ─┐
//! service ─────────────────────────────────────┼─> queue `endpoint_slice` ─> sync
//! slice that another party changed ────────────┤
//! node ─> zones ─> services that are overloaded┘
//!
//! sync, for each address type: pods ─> wanted ─> packing ─> hints ─> creates, updates, deletes
//! ```
//!
//! The packing is stored nowhere but in the slices, and an endpoint stays in the slice that has it. So neither this controller
//! nor the Go controller writes a slice when it takes over from the other. What upstream leaves to the random order of Go maps
//! is here in the order of names.

mod controller;
mod divide;
mod draft;
mod labels;
mod metrics;
mod mode;
mod nodes;
mod observed;
mod pace;
pub mod packing;
mod plan;
mod step;
#[cfg(test)]
mod tests;
mod topology;
mod traffic_distribution;
mod wanted;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::ObjectKey;
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::QueueLoop;
use steersman_informer::work_queue::{QueueConfig, WorkQueue};

use self::controller::SliceController;
use self::metrics::Metrics;
use self::nodes::{Topology, TopologyController, ZonedNode, concerns_zones};
use crate::membership::{Membership, RoutedService, ServedPod};
use crate::slices::{CachedSlice, SliceSize, SliceStore, backoff};

/// The registry's entry of the EndpointSlice controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new("endpointslice-controller", &["endpointslice"], construct)
    .options::<EndpointSliceOptions>()
    .rules(RULES);

options! {
    /// Settings of the EndpointSlice controller.
    pub struct EndpointSliceOptions("EndpointSliceController") {
        /// Maximum number of services whose EndpointSlices are synced concurrently
        pub concurrent_syncs: Workers = Workers(5),
            "concurrent-service-endpoint-syncs", "ConcurrentServiceEndpointSyncs";
        /// Maximum number of endpoints in an EndpointSlice, from 1 to 1000
        pub max_endpoints: SliceSize = SliceSize(100), "max-endpoints-per-slice", "MaxEndpointsPerSlice";
        /// How long a sync is delayed after a change of a pod, so that it handles several changes at once
        pub updates_batch_period: Duration = Duration::ZERO,
            "endpointslice-updates-batch-period", "EndpointUpdatesBatchPeriod";
    }
}

const RULES: &[Rule] = &[
    Rule::new(&[""], &["services", "pods", "nodes"], &["list", "watch"]),
    Rule::new(&[""], &["services/finalizers"], &["update"])
        .because("A slice may block the deletion of the service that owns it."),
    Rule::new(&["discovery.k8s.io"], &["endpointslices"], &["list", "watch", "create", "update", "delete"]),
    Rule::new(&["discovery.k8s.io"], &["endpointslices/restricted"], &["create"])
        .because("Addresses of the cluster's own ranges may be written into EndpointSlices."),
];

/// Upstream's name for this controller in the label [`MANAGED_BY`](crate::slices::MANAGED_BY).
pub const MANAGER: &str = "endpointslice-controller.k8s.io";
/// Upstream's name for this controller in user agents and in the source of events.
const COMPONENT: &str = "endpoint-slice-controller";
/// How long a sync is delayed after another party changed a slice, at least.
const SLICE_CHANGE_DELAY: Duration = Duration::from_secs(1);
/// The longest delay of a service that fails again and again.
const MAX_BACKOFF: Duration = Duration::from_secs(1000);

/// Constructs the controller for the registry.
///
/// # Errors
/// If the informer of one of its kinds runs already, without the fields that this controller reads, or if the registry has
/// its metrics already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let options: EndpointSliceOptions = context.options();
    let pods = context.informers.informer::<ServedPod>()?;
    let services = context.informers.informer::<RoutedService>()?;
    let nodes = context.informers.informer::<ZonedNode>()?;
    let slices = context.informers.informer::<CachedSlice>()?;
    let queue: WorkQueue<ObjectKey> =
        context.queue_with(QueueConfig::new("endpoint_slice").limiter(backoff(MAX_BACKOFF)));
    // Upstream's queue of topology changes has no name, and so no metrics.
    let zones: WorkQueue<&'static str> = WorkQueue::new(QueueConfig::new("topology"));
    let metrics = Metrics::new();
    metrics.register(&context.metrics)?;
    let topology = Arc::new(Topology::new(nodes.lister()));
    let controller = Arc::new(SliceController {
        slices: SliceStore::new(
            MANAGER,
            &slices,
            &context.client_for("endpointslice-controller"),
            context.first_looks.clone(),
        ),
        membership: Membership::new(&services, &pods),
        services: services.lister(),
        topology: Arc::clone(&topology),
        recorder: context.recorder(COMPONENT),
        metrics,
        max_endpoints: options.max_endpoints.0,
        triggers: Mutex::default(),
        pace: pace::WritePace::default(),
    });

    services.map({
        let queue = queue.clone();
        move |change| queue.add(change.key().clone())
    });
    pods.map({
        let (controller, queue) = (Arc::clone(&controller), queue.clone());
        let batch_period = options.updates_batch_period;
        move |change| {
            let concerned = controller.membership.services_to_sync(change);
            concerned.into_iter().for_each(|service| queue.add_after(service, batch_period));
        }
    });
    slices.map({
        let (controller, queue) = (Arc::clone(&controller), queue.clone());
        let delay = options.updates_batch_period.max(SLICE_CHANGE_DELAY);
        move |change| {
            controller.slices.changed(
                change,
                |service| queue.wake(service),
                |service| queue.add_after(service, delay),
            );
        }
    });
    nodes.map({
        let zones = zones.clone();
        move |change| {
            if concerns_zones(change) {
                zones.add("nodes");
            }
        }
    });

    let caches = [pods.any(), services.any(), nodes.any(), slices.any()];
    let zones = QueueLoop::new(Arc::new(TopologyController { topology, services: queue.clone() }), zones);
    let syncs = QueueLoop::new(controller, queue).workers(options.concurrent_syncs.0);
    Ok(Construction::new([syncs.into(), zones.into()], caches))
}
