//! The EndpointSlice mirroring controller: copies Endpoints that users write into EndpointSlices, which clients read.
//!
//! It mirrors the Endpoints of services without a selector, except those with the label [`SKIP_MIRROR`] and those that serve as
//! locks for leader election. The cache of Endpoints holds no addresses, so a sync reads the object from the API server; there
//! are few such objects.

mod controller;
mod metrics;
mod plan;
#[cfg(test)]
mod tests;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use steersman_api::ObjectKey;
use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::QueueLoop;
use steersman_informer::shared_informer::Change;
use steersman_informer::work_queue::{QueueConfig, WorkQueue};
use steersman_informer::{Object, View, keep};
use steersman_kinds::endpoints::{Annotations, Endpoints, Subsets};
use steersman_kinds::service::Routing;

use self::controller::MirroringController;
use self::metrics::Metrics;
pub use self::plan::MANAGER;
use crate::endpoints::{LEADER_ANNOTATION, WrittenEndpoints};
use crate::membership::RoutedService;
use crate::slices::{CachedSlice, SliceSize, SliceStore, backoff};

/// The registry's entry of the EndpointSlice mirroring controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("endpointslice-mirroring-controller", &["endpointslicemirroring"], construct)
        .options::<MirroringOptions>()
        .rules(RULES);

options! {
    /// Settings of the EndpointSlice mirroring controller.
    pub struct MirroringOptions("EndpointSliceMirroringController") {
        /// Maximum number of Endpoints that are mirrored concurrently
        pub concurrent_syncs: Workers = Workers(5),
            "mirroring-concurrent-service-endpoint-syncs", "MirroringConcurrentServiceEndpointSyncs";
        /// Maximum number of addresses of a subset of Endpoints that are mirrored, from 1 to 1000
        pub max_endpoints: SliceSize = SliceSize(1000),
            "mirroring-max-endpoints-per-subset", "MirroringMaxEndpointsPerSubset";
        /// How long a sync is delayed after a change of an EndpointSlice, so that it handles several changes at once
        pub updates_batch_period: Duration = Duration::ZERO,
            "mirroring-endpointslice-updates-batch-period", "MirroringEndpointUpdatesBatchPeriod";
    }
}

const RULES: &[Rule] = &[
    Rule::new(&[""], &["services"], &["list", "watch"]),
    Rule::new(&[""], &["endpoints"], &["get", "list", "watch"]),
    Rule::new(&[""], &["endpoints/finalizers"], &["update"])
        .because("A slice may block the deletion of the Endpoints that own it."),
    Rule::new(&["discovery.k8s.io"], &["endpointslices"], &["list", "watch", "create", "update", "delete"]),
    Rule::new(&["discovery.k8s.io"], &["endpointslices/restricted"], &["create"])
        .because("Addresses of the cluster's own ranges may be written into EndpointSlices."),
];

keep! {
    /// The fields of Endpoints that slices mirror. Read from the API server, not cached.
    pub struct MirroredEndpoints: Endpoints => Annotations, Subsets
}

/// The label of Endpoints that must not be mirrored.
pub const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Upstream's name for this controller in the source of events.
const COMPONENT: &str = "endpoint-slice-mirroring-controller";
/// The longest delay of Endpoints that fail again and again.
const MAX_BACKOFF: Duration = Duration::from_secs(100);

/// Constructs the controller for the registry.
///
/// # Errors
/// If the informer of one of its kinds runs already, without the fields that this controller reads, or if the registry has
/// its metrics already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let options: MirroringOptions = context.options();
    let endpoints = context.informers.informer::<WrittenEndpoints>()?;
    let services = context.informers.informer::<RoutedService>()?;
    let slices = context.informers.informer::<CachedSlice>()?;
    let queue: WorkQueue<ObjectKey> =
        context.queue_with(QueueConfig::new("endpoint_slice_mirroring").limiter(backoff(MAX_BACKOFF)));
    let metrics = Metrics::new();
    metrics.register(&context.metrics)?;
    let sender = context.client_for("endpointslicemirroring-controller");
    let controller = Arc::new(MirroringController {
        slices: SliceStore::new(MANAGER, &slices, &sender, context.first_looks.clone()),
        endpoints: endpoints.lister(),
        reader: Client::keeping::<MirroredEndpoints>(sender),
        services: services.lister(),
        recorder: context.recorder(COMPONENT),
        metrics,
        max: options.max_endpoints.0,
    });

    endpoints.map({
        let (controller, queue) = (Arc::clone(&controller), queue.clone());
        move |change| {
            let states = [change.old(), change.new()];
            let concerns = states.into_iter().flatten().any(|state| should_mirror(state.object()));
            // Most services have a selector: their Endpoints change often, and are not mirrored.
            let no_selector = controller.has_no_selector(change.key()).unwrap_or(true);
            if concerns && no_selector {
                queue.add(change.key().clone());
            }
        }
    });
    services.map({
        let queue = queue.clone();
        move |change| {
            let [old, new] = [change.old(), change.new()].map(|service| service.map(selects));
            let concerns = match (old, new) {
                (Some(old), Some(new)) => old != new,
                (old, new) => old.or(new) == Some(false),
            };
            if concerns {
                queue.add(change.key().clone());
            }
        }
    });
    slices.map({
        let (controller, queue) = (Arc::clone(&controller), queue.clone());
        let delay = options.updates_batch_period;
        move |change| {
            // Slices whose Endpoints or service went away while no controller ran, or while another process led.
            if let Change::Added { object, initial: true } | Change::Resync { object } = change {
                controller.slices.service(object.meta()).into_iter().for_each(|service| queue.add(service));
            }
            controller.slices.changed(
                change,
                |service| queue.wake(service),
                |service| queue.add_after(service, delay),
            );
        }
    });

    let caches = [endpoints.any(), services.any(), slices.any()];
    let syncs = QueueLoop::new(controller, queue).workers(options.concurrent_syncs.0);
    Ok(Construction::new([syncs.into()], caches))
}

fn selects(service: &View<RoutedService>) -> bool {
    !service.get::<Routing>().selector.is_empty()
}

/// Whether an Endpoints object is mirrored, provided that its service has no selector.
fn should_mirror(endpoints: &Endpoints) -> bool {
    let skipped = endpoints.meta().labels.get(SKIP_MIRROR).is_some_and(|value| value == "true");
    !skipped && endpoints.annotations().get(LEADER_ANNOTATION).is_none()
}
