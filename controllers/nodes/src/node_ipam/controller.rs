//! Syncs of nodes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use steersman_api::{LabelSelector, ObjectKey, Time, Uid};
use steersman_client::events::{EventType, Recorder};
use steersman_controller::client::{Changed, Client, Patch, event_reference};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::Plan;
use steersman_informer::Lister;
use steersman_informer::wire::{Group, Object};
use steersman_informer::work_queue::WorkQueue;
use steersman_kinds::node::Node;
use steersman_kinds::pod_cidrs::PodCidrs;
use tokio::time::Instant;

use super::PoddedNode;
use super::allocator::{Allocator, Listed};
use super::ledger::{Certainty, Holding};
use super::plan::{Observed, Outcome, Step, plan};

/// How often one sync tries to write the ranges of a node, as upstream's `cidrUpdateRetries`.
const ATTEMPTS: usize = 3;
/// How long syncs report the failure of the term's first list, before one of them tries again.
const LIST_AGAIN: Duration = Duration::from_secs(1);

/// Gives nodes their ranges.
pub(super) struct NodeIpam {
    pub nodes: Lister<PoddedNode>,
    pub client: Client<Node>,
    pub recorder: Recorder,
    pub queue: WorkQueue<ObjectKey>,
    pub allocator: Arc<Allocator>,
    /// When the term's first list last failed, and why. Locked while a sync lists.
    pub list_failed: tokio::sync::Mutex<Option<(Instant, SyncError)>>,
}

impl NodeIpam {
    /// Lists all nodes from the API server, unless a sync of this term has done so. No block may be allocated before all
    /// those are known that nodes have: the cache may not show yet what an earlier leader allocated last.
    async fn begin(&self) -> Result<(), SyncError> {
        if self.allocator.has_begun() {
            return Ok(());
        }
        let mut failed = self.list_failed.lock().await;
        if self.allocator.has_begun() {
            return Ok(());
        }
        if let Some((_, error)) = failed.as_ref().filter(|(at, _)| at.elapsed() < LIST_AGAIN) {
            return Err(error.clone());
        }
        match self.client.list("", &LabelSelector::everything()).await {
            Ok(list) => {
                let listed = |node: &Arc<Node>| {
                    let cidrs = PodCidrs::of(node).expect("the client must decode what it keeps");
                    let meta = node.meta();
                    Listed { uid: meta.uid.clone(), name: meta.key.name.clone(), cidrs: cidrs.cidrs.clone() }
                };
                let nodes: Vec<Listed> = list.objects.iter().map(listed).collect();
                let as_of = list.as_of;
                // Of a node that is in the list, a cache that is as new as the list lacks only what was deleted since. An
                // older cache will show the deletion later.
                let is_gone = |uid: &Uid| {
                    self.nodes.last_sync_resource_version() >= as_of
                        && matches!(self.nodes.get_by_uid(uid), Ok(None))
                };
                self.allocator.begin(&nodes, is_gone);
                *failed = None;
                Ok(())
            }
            Err(error) => {
                *failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    fn release(&self, node: &Uid) {
        self.allocator.release(node).into_iter().for_each(|waiting| self.queue.add(waiting));
    }

    fn record(&self, observed: &Observed, reason: &'static str) {
        let mut node = event_reference::<Node>(&observed.meta);
        // Upstream's reference lacks it as well.
        node.resource_version = None;
        let message = format!("Node {} status is now: {reason}", observed.meta.key.name);
        self.recorder.event(&node, EventType::Normal, reason, message);
    }

    fn propose(&self, key: &ObjectKey, observed: &Observed) -> Result<Outcome, SyncError> {
        match self.allocator.propose(&observed.meta.uid, key)? {
            Ok(holding) => Ok(Outcome::Proposed(holding)),
            Err(exhausted) => {
                self.record(observed, "CIDRNotAvailable");
                Err(SyncError::Failed(exhausted.to_string()))
            }
        }
    }

    async fn write(&self, key: &ObjectKey, observed: &Observed) -> Result<Outcome, SyncError> {
        let node = &observed.meta.uid;
        let holding = observed.holding.as_ref().expect("the plan must write only what the node holds");
        let cidrs: Vec<String> = holding.ranges.iter().flatten().map(ToString::to_string).collect();
        // The uid keeps another node of that name from getting the blocks after they were released.
        let patch = Patch::Strategic(json!({
            "metadata": {"uid": node},
            "spec": {"podCIDR": cidrs[0], "podCIDRs": cidrs},
        }));
        let mut is_in_doubt = holding.certainty == Certainty::InDoubt;
        // This sync may be dropped in the middle of a call.
        self.allocator.now(node, Certainty::InDoubt);
        let mut failed = None;
        for _ in 0..ATTEMPTS {
            match self.client.patch(key, &patch).await {
                Ok(Changed::Now(_)) => {
                    tracing::info!(node = %key.name, pod_cidrs = ?cidrs, "Set node PodCIDR");
                    self.allocator.now(node, Certainty::Written);
                    return Ok(Outcome::Done);
                }
                Ok(Changed::Gone) => {
                    self.release(node);
                    return Ok(Outcome::Done);
                }
                Ok(Changed::Conflict(status)) => {
                    failed = Some(SyncError::Refused { what: format!("patching Node {key}"), status });
                }
                Err(error) => {
                    is_in_doubt |= !error.surely_not_done();
                    let ends = error.is_end_of_leadership();
                    failed = Some(error);
                    if ends {
                        break;
                    }
                }
            }
        }
        let error = failed.expect("an attempt must succeed or fail");
        if !error.is_end_of_leadership() {
            self.record(observed, "CIDRAssignmentFailed");
        }
        // Blocks that the node may have stay with it, and the next sync writes them again. Upstream releases them unless the
        // API server answered that it timed out.
        if !is_in_doubt || matches!(self.nodes.get_by_uid(node), Ok(None)) {
            self.release(node);
        }
        Err(error)
    }
}

impl Controller for NodeIpam {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    fn term_begins(&self) {
        self.allocator.forget();
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        self.begin().await?;
        let node = self.nodes.get(key).map_err(|node| SyncError::Unreadable(format!("Node {}", node.key)))?;
        Ok(node.map_or(Observation::Nothing, |node| {
            let meta = node.meta().clone();
            let holding: Option<Holding> = self.allocator.holding(&meta.uid);
            let cidrs = node.get::<PodCidrs>().cidrs.clone();
            Observation::Ready(Observed { meta, cidrs, holding, is_done: false })
        }))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        match step {
            Step::Record => {
                let Observed { meta, cidrs, .. } = observed;
                let recorded = self.allocator.written(&meta.uid, &meta.key.name, cidrs);
                // The node may have been deleted since it was observed, when it held nothing that could be released.
                if matches!(self.nodes.get_by_uid(&meta.uid), Ok(None)) {
                    self.release(&meta.uid);
                }
                recorded.map(|()| Outcome::Done)
            }
            Step::Propose => self.propose(key, observed),
            Step::Write => self.write(key, observed).await,
        }
    }

    fn absorb(&self, observed: &mut Observed, _: Step, result: StepResult<Outcome>) {
        observed.absorb(result);
    }
}
