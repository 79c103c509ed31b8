//! The pod garbage collector: force-deletes pods that no kubelet and no owner will delete.
//!
//! ```text
//! every 20 s: pods, nodes ─> terminated beyond the threshold      (terminated.rs)
//!                            terminating on nodes out of service  (terminating.rs)
//!                            on nodes that are gone               (orphaned.rs; after quarantine and a live read)
//!                            terminating and never scheduled      (terminating.rs)
//!             each: set the phase to Failed if it has not ended, then delete with grace period 0
//! ```

pub mod collection;
pub mod metrics;
pub mod plan;

mod orphaned;
mod terminated;
mod terminating;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::{ArcStr, ObjectKey, Time};
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Lister, View, keep};

use self::collection::Collection;
use self::metrics::Metrics;
use self::plan::{Observed, Outcome, Round, Step, plan};
use steersman_controller::client::{Changed, Client, Delete, Patch};
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::options;
use steersman_controller::plan::Plan;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::PeriodicLoop;
use steersman_kinds::node::{Node, Readiness, Taints};
use steersman_kinds::pod::{Disruption, Phase, Placement, Pod};

/// The registry's entry of the pod garbage collector.
pub const DESCRIPTOR: Descriptor = Descriptor::new("pod-garbage-collector-controller", &["podgc"], construct)
    .options::<PodGcOptions>()
    .rules(RULES);

options! {
    /// Settings of the pod garbage collector.
    pub struct PodGcOptions("PodGCController") {
        /// Maximum number of terminated pods, beyond which the oldest are deleted; 0 or less: any number
        pub terminated_pod_threshold: i32 = 12_500, "terminated-pod-gc-threshold", "TerminatedPodGCThreshold";
    }
}

const RULES: &[Rule] = &[
    Rule::new(&[""], &["pods"], &["list", "watch", "delete"]),
    Rule::new(&[""], &["pods/status"], &["patch"]),
    Rule::new(&[""], &["nodes"], &["get", "list", "watch"]),
];

keep! {
    /// The fields of a pod that decide whether it is garbage.
    pub struct CollectedPod: Pod => Placement, Phase, Disruption
}
keep! {
    /// The fields of a node that decide whether its pods are garbage.
    pub struct CollectedNode: Node => Taints, Readiness
}

/// Time between two collections. Upstream: `gcCheckPeriod`.
const PERIOD: Duration = Duration::from_secs(20);
/// How long the collector waits for a node to appear in the cache, before it asks the API server whether the node exists.
/// Upstream: `quarantineTime`.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Constructs the controller for the registry.
///
/// # Errors
/// If the informer of one of its kinds runs already, without the fields that this controller reads; or if its metrics are
/// registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let pods = context.informers.informer::<CollectedPod>()?;
    let nodes = context.informers.informer::<CollectedNode>()?;
    let metrics = Metrics::new();
    metrics.register(&context.metrics)?;
    let threshold = usize::try_from(context.options::<PodGcOptions>().terminated_pod_threshold).unwrap_or(0);
    let client = context.client_for("pod-garbage-collector");
    let controller = Arc::new(PodGc {
        pod_client: Client::new(client.clone()),
        node_client: Client::new(client),
        pods: pods.lister(),
        nodes: nodes.lister(),
        quarantine: context.queue("orphaned_pods_nodes"),
        terminated_threshold: (threshold > 0).then_some(threshold),
        metrics,
        unfinished: Mutex::new(None),
    });
    let collect = PeriodicLoop::new(controller, "all pods", PERIOD);
    Ok(Construction::new([collect.into()], [pods.any(), nodes.any()]))
}

/// Finds and deletes pods that are garbage. It has one key, which stands for all pods.
pub struct PodGc {
    pod_client: Client<Pod>,
    node_client: Client<Node>,
    pods: Lister<CollectedPod>,
    nodes: Lister<CollectedNode>,
    /// Nodes that pods name and that the cache does not have. The queue returns each when its quarantine ends.
    quarantine: WorkQueue<ArcStr>,
    terminated_threshold: Option<usize>,
    metrics: Metrics,
    /// The round of the last sync, if that sync did not finish it.
    unfinished: Mutex<Option<Round>>,
}

impl PodGc {
    /// All readable pods. The collector leaves unreadable ones alone, and collects the others.
    fn pods(&self) -> Vec<View<CollectedPod>> {
        let (pods, unreadable) = self.pods.list_readable();
        if let Some(error) = unreadable.first() {
            tracing::warn!(%error, pods = unreadable.len(), "Skipped pods that can't be read");
        }
        pods
    }

    /// All nodes by name; `None` for a node that can't be read, but exists.
    fn nodes(&self) -> HashMap<ArcStr, Option<View<CollectedNode>>> {
        let (readable, unreadable) = self.nodes.list_readable();
        let readable = readable.into_iter().map(|node| (node.meta().key.name.clone(), Some(node)));
        readable.chain(unreadable.into_iter().map(|error| (error.key.name, None))).collect()
    }

    /// Takes the nodes whose quarantine has ended from the queue.
    async fn out_of_quarantine(&self) -> Vec<ArcStr> {
        let mut nodes = Vec::new();
        while !self.quarantine.is_empty()
            && let Some(taken) = self.quarantine.get().await
        {
            nodes.push(taken.key().clone());
            taken.finish();
        }
        nodes
    }

    async fn read_node(&self, node: &str) -> Result<Outcome, SyncError> {
        let found = self.node_client.resource().get_meta(&ObjectKey::new("", node)).await?;
        Ok(if found.is_some() { Outcome::NodeExists } else { Outcome::NodeIsGone })
    }

    async fn collect(&self, pod: &Collection) -> Result<Outcome, SyncError> {
        tracing::info!(pod = %pod.key, reason = pod.reason.as_str(), "PodGC is force deleting Pod");
        let ended = self.mark_failed_and_delete(pod).await;
        self.metrics.deleted(&pod.key.namespace, pod.reason, ended.is_ok());
        if let Err(error) = &ended
            && !error.is_end_of_leadership()
        {
            tracing::error!(pod = %pod.key, reason = pod.reason.as_str(), %error, "Failed to delete pod");
        }
        ended.map(|()| Outcome::Collected)
    }

    /// Sets the pod's phase to `Failed`, if it has not ended, and deletes the pod. Succeeds if the pod no longer exists or
    /// has another uid.
    async fn mark_failed_and_delete(&self, pod: &Collection) -> Result<(), SyncError> {
        if let Some(patch) = &pod.failure {
            let patch = Patch::Strategic(patch.clone());
            if !matches!(self.pod_client.patch_status(&pod.key, &patch).await?, Changed::Now(_)) {
                return Ok(());
            }
        }
        let delete = Delete { grace_period_seconds: Some(0), ..Delete::of(&pod.uid) };
        self.pod_client.delete(&pod.key, &delete).await.map(drop)
    }
}

impl Controller for PodGc {
    type Key = &'static str;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    /// Drops an unfinished round: another process may have led meanwhile.
    fn term_begins(&self) {
        *self.unfinished.lock() = None;
    }

    async fn observe(&self, _key: &Self::Key) -> Result<Observation<Observed>, SyncError> {
        let unfinished = self.unfinished.lock().take();
        // List the pods before the nodes, so that the nodes of new pods are in the second list.
        let pods = self.pods();
        let (round, mut out_of_quarantine) = unfinished.unwrap_or_default().resume(&pods);
        out_of_quarantine.extend(self.out_of_quarantine().await);
        Ok(Observation::Ready(Observed {
            pods,
            nodes: self.nodes(),
            out_of_quarantine,
            terminated_threshold: self.terminated_threshold,
            round,
            ..Observed::default()
        }))
    }

    fn plan(&self, observed: &Observed, now: Time) -> Plan<Step> {
        plan(observed, now)
    }

    async fn act(&self, _key: &Self::Key, _observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        match step {
            Step::Quarantine(node) => {
                self.quarantine.add_after(node.clone(), QUARANTINE);
                Ok(Outcome::Quarantined)
            }
            Step::ReadNode(node) => self.read_node(node).await,
            Step::Collect(pod) => self.collect(pod).await,
        }
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, &result);
        if observed.round.is_unfinished() {
            *self.unfinished.lock() = Some(observed.round.clone());
        }
    }
}
