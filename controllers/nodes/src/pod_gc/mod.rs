//! The pod garbage collector: force-deletes pods that nobody else will remove.
//!
//! ```text
//! every 20 s: pods, nodes ─> terminated beyond the threshold      (terminated.rs)
//!                            terminating on nodes out of service  (terminating.rs)
//!                            on nodes that are gone               (orphaned.rs; after quarantine and a live read)
//!                            terminating and never scheduled      (terminating.rs)
//!             each: phase Failed if it has not ended, then delete without grace
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

use http::Method;
use parking_lot::Mutex;
use serde_json::json;
use steersman_api::{ArcStr, Time};
use steersman_informer::work_queue::WorkQueue;
use steersman_informer::{Lister, View, keep};

use self::collection::Collection;
use self::metrics::Metrics;
use self::plan::{Observed, Outcome, Round, Step, plan};
use steersman_controller::call::{Call, Content, JSON, STRATEGIC_MERGE_PATCH};
use steersman_controller::context::ControllerContext;
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::options;
use steersman_controller::plan::Plan;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::{BoxError, Construction, Descriptor};
use steersman_controller::runner::PeriodicLoop;
use steersman_kinds::node::{Node, Readiness, Taints};
use steersman_kinds::pod::{Disruption, Phase, Placement, Pod};

/// The row of the pod garbage collector.
pub const DESCRIPTOR: Descriptor = Descriptor::new("pod-garbage-collector-controller", &["podgc"], construct)
    .options::<PodGcOptions>()
    .rules(RULES);

options! {
    /// Settings of the pod garbage collector.
    pub struct PodGcOptions("PodGCController") {
        /// How many terminated pods may exist before the oldest are deleted; 0 and less: any number
        pub terminated_pod_threshold: i32 = 12_500, "terminated-pod-gc-threshold", "TerminatedPodGCThreshold";
    }
}

const RULES: &[Rule] = &[
    Rule::new(&[""], &["pods"], &["list", "watch", "delete"]),
    Rule::new(&[""], &["pods/status"], &["patch"]),
    Rule::new(&[""], &["nodes"], &["get", "list", "watch"]),
];

keep! {
    /// What tells whether a pod is garbage.
    pub struct CollectedPod: Pod => Placement, Phase, Disruption
}
keep! {
    /// What tells whether a node still looks after its pods.
    pub struct CollectedNode: Node => Taints, Readiness
}

/// How often garbage is looked for; upstream: `gcCheckPeriod`.
const PERIOD: Duration = Duration::from_secs(20);
/// How long a node that the cache does not know may take to turn up, before the API server is asked whether it is gone;
/// upstream: `quarantineTime`.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Makes the controller, as the registry has it.
///
/// # Errors
/// One of its caches runs already, without what it needs; or its metrics are registered already.
pub fn construct(context: &ControllerContext) -> Result<Construction, BoxError> {
    let pods = context.informers.informer::<CollectedPod>()?;
    let nodes = context.informers.informer::<CollectedNode>()?;
    let metrics = Metrics::new();
    metrics.register(&context.metrics)?;
    let threshold = usize::try_from(context.options::<PodGcOptions>().terminated_pod_threshold).unwrap_or(0);
    let controller = Arc::new(PodGc {
        client: context.client_for("pod-garbage-collector"),
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

/// Looks for pods that are garbage. Its one key stands for all of them.
pub struct PodGc {
    client: kube::Client,
    pods: Lister<CollectedPod>,
    nodes: Lister<CollectedNode>,
    /// Nodes that pods name and the cache does not know: handed out once their time is up.
    quarantine: WorkQueue<ArcStr>,
    terminated_threshold: Option<usize>,
    metrics: Metrics,
    /// The round that the last sync did not come to the end of.
    unfinished: Mutex<Option<Round>>,
}

impl PodGc {
    /// All pods that can be read. Those that can't be are left alone, and keep the collector from no other.
    fn pods(&self) -> Vec<View<CollectedPod>> {
        let (pods, unreadable) = self.pods.list_readable();
        if let Some(error) = unreadable.first() {
            tracing::warn!(%error, pods = unreadable.len(), "Pods that can't be read are not collected");
        }
        pods
    }

    /// All nodes by name, those that can't be read as `None`: they exist.
    fn nodes(&self) -> HashMap<ArcStr, Option<View<CollectedNode>>> {
        let (readable, unreadable) = self.nodes.list_readable();
        let readable = readable.into_iter().map(|node| (node.meta().key.name.clone(), Some(node)));
        readable.chain(unreadable.into_iter().map(|error| (error.key.name, None))).collect()
    }

    /// The nodes whose quarantine is over.
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
        let what = format!("reading node {node}");
        let call = Call { what, method: Method::GET, path: format!("/api/v1/nodes/{node}"), content: None };
        match call.send(&self.client).await {
            Ok(_) => Ok(Outcome::NodeExists),
            Err(error) if error.is("NotFound") => Ok(Outcome::NodeIsGone),
            Err(error) => Err(error),
        }
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

    /// That there is no such pod any more, or another of its name, is as good as done.
    async fn mark_failed_and_delete(&self, pod: &Collection) -> Result<(), SyncError> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.key.namespace, pod.key.name);
        let gone = |error: &SyncError| error.is("NotFound") || error.is("Conflict");
        if let Some(patch) = &pod.failure {
            let what = format!("marking pod {} as failed", pod.key);
            let content = Some(Content::json(STRATEGIC_MERGE_PATCH, patch));
            let call = Call { what, method: Method::PATCH, path: format!("{path}/status"), content };
            match call.send(&self.client).await {
                Err(error) if gone(&error) => return Ok(()),
                other => other?,
            };
        }
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid},
        });
        let what = format!("deleting pod {}", pod.key);
        let content = Some(Content::json(JSON, &options));
        match (Call { what, method: Method::DELETE, path, content }).send(&self.client).await {
            Err(error) if !gone(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Controller for PodGc {
    type Key = &'static str;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    /// Another process may have led since, and the API server would have to be asked anew for all of it.
    fn term_begins(&self) {
        *self.unfinished.lock() = None;
    }

    async fn observe(&self, _key: &Self::Key) -> Result<Observation<Observed>, SyncError> {
        let unfinished = self.unfinished.lock().take();
        // Pods first: the later the nodes, the fewer of them seem to be missing.
        let pods = self.pods();
        let (round, mut out_of_quarantine) = unfinished.unwrap_or_default().go_on(&pods);
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
        if observed.round.goes_on() {
            *self.unfinished.lock() = Some(observed.round.clone());
        }
    }
}
