//! The horizontal pod autoscaler: sets the number of replicas of workloads from metrics.
//!
//! ```text
//! changes of autoscalers ─> queue "horizontalpodautoscaler", each key once in a sync period ─> observe
//!   ─> plan: read the target's scale ─> read the metrics (metrics_api) ─> decide ─> set the scale ─> write the status
//!                                                                           │
//!      metric ─> calculator (pods, requests, usage, tolerance) ─────────────┤ what each metric calls for
//!      limits (history, behavior) ──────────────────────────────────────────┘ windows, rates and bounds
//! ```
//!
//! As upstream's controller, except that
//! - pods that succeeded don't count, as those that failed don't;
//! - a metric is read once in a sync period for all autoscalers that ask for it, and the usage of pods once for all resources;
//! - an autoscaler whose target is scaled to zero is no rival of others that select the same pods;
//! - after a failover the last change of replicas counts in windows and rates as far as the status tells of it;
//! - numbers of replicas that don't fit 32 bits become the greatest number. In Go they become negative on some processors.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_controller::client::{Client, StatusWriter};
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::own_writes::OwnWrites;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop};
use steersman_informer::index::{BY_LABEL, BY_NAMESPACE, by_label, by_namespace};
use steersman_informer::work_queue::QueueConfig;
use steersman_informer::{Change, keep};
use steersman_kinds::horizontal_pod_autoscaler::{AutoscalerSpec, AutoscalerStatus, HorizontalPodAutoscaler};
use steersman_kinds::pod::{Phase, Pod, Readiness};
use steersman_kinds::pod_resources::PodDemand;
use steersman_kinds::pod_start::PodStart;
use steersman_kinds::shared::Shared;

mod behavior;
mod calculator;
mod controller;
mod decision;
mod history;
mod limiter;
mod limits;
mod metric;
mod metrics;
mod metrics_api;
mod observed;
mod plan;
mod pods;
mod requests;
mod rivals;
mod status;
#[cfg(test)]
mod tests;
mod tolerance;
mod usage;

/// The gate that lets the behavior of an autoscaler set tolerances.
const OWN_TOLERANCES: &str = "HPAConfigurableTolerance";
/// The gate that lets autoscalers remove all replicas.
const SCALE_TO_ZERO: &str = "HPAScaleToZero";
/// The gate of requests for whole pods.
const POD_LEVEL_RESOURCES: &str = "PodLevelResources";
/// The name of the controller's client, and the source of its events.
const COMPONENT: &str = "horizontal-pod-autoscaler";
/// How long a sync waits for the cache to show the controller's own write, before it asks the API server.
const PATIENCE: Duration = Duration::from_secs(30);

/// The row of the controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("horizontal-pod-autoscaler-controller", &["horizontalpodautoscaling"], construct)
        .options::<AutoscalerOptions>()
        .gates(&[OWN_TOLERANCES, SCALE_TO_ZERO, POD_LEVEL_RESOURCES])
        .rules(&[
            Rule::new(&["autoscaling"], &["horizontalpodautoscalers"], &["get", "list", "watch"]),
            Rule::new(&["autoscaling"], &["horizontalpodautoscalers/status"], &["patch"]).because(
                "Kubernetes's own role has update instead, which the controller uses where it may not patch.",
            ),
            Rule::new(&["*"], &["*/scale"], &["get", "update"])
                .because("Autoscalers may have custom resources for targets, of whatever kind."),
            Rule::new(&[""], &["pods"], &["list", "watch"]),
            Rule::new(&["metrics.k8s.io"], &["pods"], &["list"]),
            Rule::new(&["custom.metrics.k8s.io"], &["*"], &["get"]),
            Rule::new(&["external.metrics.k8s.io"], &["*"], &["list"]),
        ]);

options! {
    /// Settings of the horizontal pod autoscaler.
    pub struct AutoscalerOptions("HPAController") {
        /// How many autoscalers are synced at a time
        pub concurrent_syncs: Workers = Workers(5),
            "concurrent-horizontal-pod-autoscaler-syncs", "ConcurrentHorizontalPodAutoscalerSyncs";
        /// The period at which autoscalers are synced
        pub sync_period: Duration = Duration::from_secs(15),
            "horizontal-pod-autoscaler-sync-period", "HorizontalPodAutoscalerSyncPeriod";
        /// How far back recommendations keep an autoscaler from removing replicas
        pub downscale_stabilization: Duration = Duration::from_secs(60 * 5),
            "horizontal-pod-autoscaler-downscale-stabilization",
            "HorizontalPodAutoscalerDownscaleStabilizationWindow";
        /// How far the ratio of usage to target may be from 1.0 without effect
        pub tolerance: f64 = 0.1,
            "horizontal-pod-autoscaler-tolerance", "HorizontalPodAutoscalerTolerance";
        /// How long after the start of a pod its processor usage may be left out
        pub cpu_initialization_period: Duration = Duration::from_secs(60 * 5),
            "horizontal-pod-autoscaler-cpu-initialization-period",
            "HorizontalPodAutoscalerCPUInitializationPeriod";
        /// How long after the start of a pod a change of its readiness counts as the initial one
        pub initial_readiness_delay: Duration = Duration::from_secs(30),
            "horizontal-pod-autoscaler-initial-readiness-delay",
            "HorizontalPodAutoscalerInitialReadinessDelay";
    }
}

keep! {
    /// What the controller reads of an autoscaler.
    pub struct SyncedAutoscaler: HorizontalPodAutoscaler => AutoscalerSpec, AutoscalerStatus
}

keep! {
    /// What the controller reads of a pod.
    pub struct ScaledPod: Pod => Phase, Readiness, PodStart, Shared<PodDemand>
}

/// The shortest period of syncs: a period of zero would never let the controller rest.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);

/// Makes the controller.
///
/// # Errors
/// A cache runs already without the fields that the controller reads, or its metrics are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let mut options = context.options::<AutoscalerOptions>();
    options.sync_period = options.sync_period.max(SHORTEST_PERIOD);
    let metrics = Arc::new(metrics::Metrics::new());
    metrics.register(&context.metrics)?;
    let autoscalers = context.informers.informer::<SyncedAutoscaler>()?;
    let pods = context.informers.informer::<ScaledPod>()?;
    let limiter = limiter::FixedPeriod(options.sync_period);
    let queue = context.queue_with(QueueConfig::new("horizontalpodautoscaler").limiter(limiter));
    let rivals = Arc::new(Mutex::new(rivals::Rivals::default()));
    let (keys, known, counts) = (queue.clone(), Arc::clone(&rivals), Arc::clone(&metrics));
    autoscalers.map(move |change| {
        let key = change.key();
        keys.wake(key);
        if let Change::Deleted { .. } = change {
            if known.lock().remove(key) {
                counts.autoscalers.dec();
            }
            // So that a sync forgets the autoscaler.
            keys.add(key.clone());
            return;
        }
        if known.lock().add(key) {
            counts.autoscalers.inc();
        }
        keys.add_rate_limited(key.clone());
    });

    let sender = context.client_for(COMPONENT);
    let client = Client::keeping::<SyncedAutoscaler>(sender.clone());
    let mapper = Arc::clone(&context.rest_mapper);
    let controller = controller::Autoscaling {
        autoscalers: autoscalers.lister(),
        pods: pods.lister(),
        pods_by_label: pods.add_index(BY_LABEL, by_label),
        pods_by_namespace: pods.add_index(BY_NAMESPACE, by_namespace),
        rivals,
        metrics_api: metrics_api::MetricsApi::new(sender.clone(), Arc::clone(&mapper), options.sync_period),
        sender,
        mapper,
        status: StatusWriter::new(client.clone()),
        client,
        own_writes: OwnWrites::new(PATIENCE).over(&autoscalers.any()),
        recorder: context.recorder(COMPONENT),
        settings: decision::Settings {
            tolerance: options.tolerance,
            window: options.downscale_stabilization,
            start_up: pods::StartUp {
                cpu_initialization: options.cpu_initialization_period,
                initial_readiness: options.initial_readiness_delay,
            },
            own_tolerances: context.gates.enabled(OWN_TOLERANCES),
            scale_to_zero: context.gates.enabled(SCALE_TO_ZERO),
            pod_level_resources: context.gates.enabled(POD_LEVEL_RESOURCES),
        },
        period: options.sync_period,
        memories: Mutex::default(),
        scales: Mutex::default(),
        metrics,
        clock: context.clock.clone(),
    };
    let syncs = QueueLoop::new(Arc::new(controller), queue)
        .workers(options.concurrent_syncs.0)
        .give_up(GiveUp::Never);
    Ok(Construction::new([syncs.into()], [autoscalers.any(), pods.any()]))
}
