//! The node life cycle controller: notices nodes that are silent or not ready, marks them and their pods, and taints them so
//! that their pods move elsewhere, no faster than each zone's health allows.
//!
//! ```text
//! leases, heartbeats ─> when each node last showed a sign of life (silence.rs, one heap)
//!                            │ silent: asks the API server for the lease, then sets the conditions to Unknown
//! conditions, zones ─> rounds over the nodes that changed (monitor.rs) ─> pods not ready
//!                            │ not ready                        │ counts of each zone (zones.rs)
//!                            ▼                                  ▼
//!                      queue of the zone (queue.rs) <──── its rate: healthy, reduced, none
//!                            └─> taint NoExecute (tainting.rs): the taint eviction controller deletes pods
//!
//! a node's conditions, labels ─> queue "node_lifecycle_controller" ─> taints NoSchedule, older labels (syncs.rs)
//! a pod comes to a node that is not ready ─> queue "node_lifecycle_controller_pods" ─> pod not ready (syncs.rs)
//! ```

pub mod labels;
pub mod metrics;
pub mod queue;
pub mod silence;
pub mod taints;
pub mod zones;

mod monitor;
mod syncs;
mod tainting;
#[cfg(test)]
mod tests;
mod watching;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::ObjectKey;
use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::options;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop, TaskLoop};
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Change, IndexValue, Informer, View, keep};
use steersman_kinds::lease::{Lease, Renewal};
use steersman_kinds::node::{Cordon, Health, Node, Taints};
use steersman_kinds::pod::{Placement, Pod, Readiness};

use self::metrics::Metrics;
use self::monitor::Monitor;
use self::silence::Grace;
use self::syncs::{NodeSyncs, PodSyncs, steps};
use self::watching::{State, Watching};
use self::writes::Writes;
use self::zones::Rates;

/// The registry's entry of the node life cycle controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("node-lifecycle-controller", &["nodelifecycle"], construct)
        .options::<NodeLifecycleOptions>()
        .shared_options::<NodeMonitorOptions>()
        .rules(RULES);

options! {
    /// Settings of the node life cycle controller.
    pub struct NodeLifecycleOptions("NodeLifecycleController") {
        /// Nodes per second whose pods are evicted in a zone that is healthy (see --unhealthy-zone-threshold). Nodes without
        /// a zone make up one zone
        eviction_rate: f32 = 0.1, "node-eviction-rate", "NodeEvictionRate";
        /// Nodes per second whose pods are evicted in a zone that is unhealthy; none if the zone is not larger than
        /// --large-cluster-size-threshold
        secondary_eviction_rate: f32 = 0.01, "secondary-node-eviction-rate", "SecondaryNodeEvictionRate";
        /// How long a node may stay without a report of its kubelet after it was created
        startup_grace_period: Duration = Duration::from_secs(60), "node-startup-grace-period", "NodeStartupGracePeriod";
        /// How long a running node may be silent before it is marked as unhealthy; several times as long as the kubelet's
        /// interval between its reports
        monitor_grace_period: Duration = Duration::from_secs(50), "node-monitor-grace-period", "NodeMonitorGracePeriod";
        /// Number of nodes up to which a zone that is unhealthy gets no evictions
        large_cluster_size_threshold: i32 = 50, "large-cluster-size-threshold", "LargeClusterSizeThreshold";
        /// The part of a zone's nodes, at least three, that must not be ready for the zone to be unhealthy
        unhealthy_zone_threshold: f32 = 0.55, "unhealthy-zone-threshold", "UnhealthyZoneThreshold";
    }
}

options! {
    /// The setting that the node life cycle controller shares with cloud providers.
    pub struct NodeMonitorOptions("KubeCloudShared") {
        /// Time between two rounds over the nodes that changed or are silent
        monitor_period: Duration = Duration::from_secs(5), "node-monitor-period", "NodeMonitorPeriod";
    }
}

const RULES: &[Rule] = &[
    Rule::new(&[""], &["nodes"], &["get", "list", "watch", "patch"]),
    Rule::new(&[""], &["nodes/status"], &["patch"]),
    Rule::new(&[""], &["pods"], &["list", "watch"]),
    Rule::new(&[""], &["pods/status"], &["patch"]),
    Rule::new(&["coordination.k8s.io"], &["leases"], &["list", "watch"]),
];

/// The namespace of the leases of nodes.
const LEASES: &str = "kube-node-lease";
/// How many nodes are synced at a time, as upstream.
const NODE_WORKERS: usize = 8;
/// How many pods are marked at a time, as upstream.
const POD_WORKERS: usize = 4;

keep! {
    /// What the controller reads of a node.
    pub struct WatchedNode: Node => Taints, Cordon, Health
}
keep! {
    /// What the controller reads of a pod.
    pub struct WatchedPod: Pod => Placement, Readiness
}
keep! {
    /// A node's lease.
    pub struct NodeLease: Lease => Renewal
}

/// Makes the controller.
///
/// # Errors
/// A cache runs already without the fields that this controller reads; or its metrics are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let options = context.options::<NodeLifecycleOptions>();
    let rates = Rates {
        healthy: options.eviction_rate,
        disrupted: options.secondary_eviction_rate,
        large: options.large_cluster_size_threshold,
        threshold: options.unhealthy_zone_threshold,
    };
    let grace = Grace { running: options.monitor_grace_period, starting: options.startup_grace_period };
    let nodes = context.informers.informer::<WatchedNode>()?;
    let pods = context.informers.informer::<WatchedPod>()?;
    // All leases, not those of nodes alone: the garbage collector then shares the cache.
    let leases = context.informers.informer::<NodeLease>()?;
    let metrics = Metrics::new();
    metrics.register(&context.metrics)?;

    let watching = Arc::new(Watching {
        nodes: nodes.lister(),
        leases: leases.lister(),
        state: Mutex::new(State::new(grace, rates)),
    });
    let (node_queue, pod_queue) =
        (context.queue("node_lifecycle_controller"), context.queue("node_lifecycle_controller_pods"));
    map(&nodes, &pods, &leases, &watching, &node_queue, &pod_queue);

    let sender = context.client_for("node-controller");
    let writes = Arc::new(Writes {
        nodes: Client::new(sender.clone()),
        pods: Client::new(sender),
        recorder: context.recorder("node-controller"),
        clock: context.clock.clone(),
    });
    let node_syncs = NodeSyncs { nodes: nodes.lister(), writes: Arc::clone(&writes) };
    let pod_syncs =
        PodSyncs { watching: Arc::clone(&watching), pods: pods.lister(), writes: Arc::clone(&writes) };
    let monitor = Arc::new(Monitor {
        watching,
        writes,
        // Upstream's role for this controller grants no reads of leases, but that of the process does.
        leases: Client::keeping::<NodeLease>(context.reader()),
        pods: pods.lister(),
        pods_by_node: pods.add_index(crate::BY_NODE, by_node),
        metrics,
        period: context.options::<NodeMonitorOptions>().monitor_period,
    });
    let tainting = Arc::clone(&monitor);
    let loops = [
        QueueLoop::new(Arc::new(node_syncs), node_queue).workers(NODE_WORKERS).give_up(GiveUp::Never).into(),
        QueueLoop::new(Arc::new(pod_syncs), pod_queue).workers(POD_WORKERS).give_up(GiveUp::Never).into(),
        TaskLoop::new("monitor", move |stop| {
            let monitor = Arc::clone(&monitor);
            async move { monitor.run(stop).await }
        })
        .into(),
        TaskLoop::new("taints", move |stop| {
            let monitor = Arc::clone(&tainting);
            async move { monitor.taint(stop).await }
        })
        .into(),
    ];
    Ok(Construction::new(loops, [nodes.any(), pods.any(), leases.any()]))
}

fn map(
    nodes: &Informer<WatchedNode>,
    pods: &Informer<WatchedPod>,
    leases: &Informer<NodeLease>,
    watching: &Arc<Watching>,
    node_queue: &WorkQueue<ObjectKey>,
    pod_queue: &WorkQueue<ObjectKey>,
) {
    nodes.map({
        let (watching, queue) = (Arc::clone(watching), node_queue.clone());
        move |change| {
            watching.node_changed(change);
            if change.new().is_some_and(|node| !steps(node).is_empty()) {
                queue.add(change.key().clone());
            }
        }
    });
    leases.map({
        let watching = Arc::clone(watching);
        move |change| watching.lease_changed(change)
    });
    pods.map({
        let (watching, queue) = (Arc::clone(watching), pod_queue.clone());
        move |change| {
            if let Some(node) = arrives_at(change)
                && watching.is_not_ready(&node)
            {
                queue.add(change.key().clone());
            }
        }
    });
}

/// The node to which a change brings a pod. A pod of the first list was there before: rounds see to those of silent nodes, and
/// kubelets that report that their node is not ready to theirs.
fn arrives_at(change: &Change<WatchedPod>) -> Option<String> {
    if matches!(change, Change::Added { initial: true, .. }) {
        return None;
    }
    let node = &change.new()?.get::<Placement>().node;
    let is_new = change.old().is_none_or(|old| old.get::<Placement>().node != *node);
    (is_new && !node.is_empty()).then(|| node.to_string())
}

fn by_node(pod: &View<WatchedPod>) -> Vec<IndexValue> {
    crate::node_of(&pod.get::<Placement>().node)
}
