//! The taint eviction controller: deletes pods from nodes whose taints with the effect `NoExecute` they do not tolerate, or
//! no longer.
//!
//! ```text
//! node: its taints change ─> since when each is there (tainted.rs) ─> queue "noexec_taint_node" ─┐
//! pod: arrives, changes ────────────────────────────────────────────> queue "noexec_taint_pod" ──┴─> verdict.rs
//!                                                                                                      │
//!                         condition DisruptionTarget, delete (deletion.rs) <── one heap (timers.rs) <──┘
//! ```
//!
//! As upstream's, except that a toleration runs out from the taint's `timeAdded` where a new leader finds the taint already
//! there, and that a deletion which failed is tried again.

mod deletion;
mod evictions;
pub mod metrics;
mod syncs;
pub mod tainted;
#[cfg(test)]
mod tests;
pub mod timers;
pub mod verdict;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use steersman_api::ObjectKey;
use steersman_client::events::{EventType, Recorder};
use steersman_controller::client::Client;
use steersman_controller::context::ControllerContext;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::{GiveUp, QueueLoop, TaskLoop};
use steersman_informer::{IndexValue, View, keep};
use steersman_kinds::node::{Node, Taints};
use steersman_kinds::pod::{Binding, Disruption, Placement, Pod};
use steersman_kinds::shared::Shared;
use steersman_kinds::tolerations::Tolerations;
use tokio::sync::Notify;

use self::deletion::Deletions;
use self::evictions::Evictions;
use self::metrics::Metrics;
use self::syncs::{NodeSyncs, PodSyncs};
use self::verdict::Comparisons;

/// The registry's entry of the taint eviction controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new("taint-eviction-controller", &[], construct)
    .rules(RULES)
    .gates(&["SeparateTaintEvictionController", COMPARISONS]);

const RULES: &[Rule] = &[
    Rule::new(&[""], &["nodes"], &["list", "watch"]),
    Rule::new(&[""], &["pods"], &["list", "watch", "delete"]),
    Rule::new(&[""], &["pods/status"], &["patch"]),
];

/// The gate of tolerations that compare numbers.
const COMPARISONS: &str = "TaintTolerationComparisonOperators";

keep! {
    /// What decides when a pod leaves its node.
    pub struct EvictedPod: Pod => Placement, Shared<Tolerations>, Binding, Disruption
}
keep! {
    /// What drives pods from a node.
    pub struct TaintedNode: Node => Taints
}

/// Makes the controller.
///
/// # Errors
/// A cache runs already without the fields that this controller reads; or its metrics are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let pods = context.informers.informer::<EvictedPod>()?;
    let nodes = context.informers.informer::<TaintedNode>()?;
    let metrics = Metrics::new();
    metrics.register(&context.metrics)?;
    let evictions = Arc::new(Evictions {
        pods: pods.lister(),
        by_node: pods.add_index(crate::BY_NODE, by_node),
        nodes_to_sync: context.queue("noexec_taint_node"),
        pods_to_sync: context.queue("noexec_taint_pod"),
        recorder: context.recorder("taint-eviction-controller"),
        clock: context.clock.clone(),
        comparisons: if context.gates.enabled(COMPARISONS) { Comparisons::On } else { Comparisons::Off },
        state: Mutex::default(),
        earlier: Notify::new(),
    });
    nodes.map({
        let evictions = Arc::clone(&evictions);
        move |change| evictions.node_changed(change)
    });
    pods.map({
        let evictions = Arc::clone(&evictions);
        move |change| evictions.pod_changed(change)
    });
    // Upstream's identity for this controller is that of the node life cycle controller.
    let client = Client::new(context.client_for("node-controller"));
    let deletions = Arc::new(Deletions { evictions: Arc::clone(&evictions), client, metrics });
    // A worker for each queue: decisions are quick, and those on one node stay in order.
    let node_syncs =
        QueueLoop::new(Arc::new(NodeSyncs(Arc::clone(&evictions))), evictions.nodes_to_sync.clone());
    let pod_syncs =
        QueueLoop::new(Arc::new(PodSyncs(Arc::clone(&evictions))), evictions.pods_to_sync.clone());
    let deletions = TaskLoop::new("deletions", move |stop| {
        let deletions = Arc::clone(&deletions);
        async move { deletions.run(stop).await }
    });
    let loops =
        [node_syncs.give_up(GiveUp::Never).into(), pod_syncs.give_up(GiveUp::Never).into(), deletions.into()];
    Ok(Construction::new(loops, [pods.any(), nodes.any()]))
}

fn by_node(pod: &View<EvictedPod>) -> Vec<IndexValue> {
    crate::node_of(&pod.get::<Placement>().node)
}

/// Records an event about a pod, which the controller knows by its name alone.
fn event(recorder: &Recorder, pod: &ObjectKey, kind: EventType, message: String) {
    let involved = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.to_string()),
        name: Some(pod.name.to_string()),
        ..ObjectReference::default()
    };
    recorder.event(&involved, kind, "TaintManagerEviction", message);
}
