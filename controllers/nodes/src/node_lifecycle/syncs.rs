//! Syncs of single nodes and pods, which need no round over all nodes.

use std::sync::Arc;

use steersman_api::{ArcStr, ObjectKey, Time};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_informer::{Lister, View};
use steersman_kinds::node::{Cordon, Health, Taints};
use steersman_kinds::pod::Placement;

use super::labels::outdated;
use super::taints::{TaintChange, no_schedule};
use super::watching::Watching;
use super::writes::Writes;
use super::{WatchedNode, WatchedPod};

/// Gives nodes the taints and labels that follow from their conditions and other labels.
pub(super) struct NodeSyncs {
    pub nodes: Lister<WatchedNode>,
    pub writes: Arc<Writes>,
}

/// A write that a node needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Taint(TaintChange),
    Label(Vec<(&'static str, ArcStr)>),
}

/// The writes that a node needs, taints first as upstream.
pub(super) fn steps(node: &View<WatchedNode>) -> Vec<Step> {
    let (taints, conditions) = (&node.get::<Taints>().taints, &node.get::<Health>().conditions);
    let change = no_schedule(taints, conditions, node.get::<Cordon>().unschedulable);
    let labels = outdated(&node.meta().labels);
    let taint = (!change.is_empty()).then_some(Step::Taint(change));
    let label = (!labels.is_empty()).then_some(Step::Label(labels));
    taint.into_iter().chain(label).collect()
}

/// A node, and the steps that have not been taken.
pub(super) struct Observed {
    node: View<WatchedNode>,
    steps: Vec<Step>,
}

impl Controller for NodeSyncs {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = ();

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let node = self.nodes.get(key).map_err(|node| SyncError::Unreadable(format!("Node {}", node.key)))?;
        Ok(node.map_or(Observation::Nothing, |node| {
            let steps = steps(&node);
            Observation::Ready(Observed { node, steps })
        }))
    }

    fn plan(&self, observed: &Observed, _: Time) -> Plan<Step> {
        if observed.steps.is_empty() {
            return Plan::done();
        }
        // Labels do not wait for taints that can't be written.
        let steps = observed.steps.clone();
        Plan::Act(Batch { steps, pace: Pace::Together(1), on_failure: OnFailure::Stop })
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<(), SyncError> {
        let uid = &observed.node.meta().uid;
        match step {
            Step::Taint(change) => self.writes.taint(&key.name, uid, change).await.map(drop),
            Step::Label(labels) => self.writes.label(key, uid, labels).await,
        }
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<()>) {
        if matches!(result, StepResult::Done(())) {
            observed.steps.retain(|other| *other != step);
        }
    }
}

/// Marks a pod that came to a node which is not ready.
pub(super) struct PodSyncs {
    pub watching: Arc<Watching>,
    pub pods: Lister<WatchedPod>,
    pub writes: Arc<Writes>,
}

/// Marks the pod as not ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark;

/// A pod on a node that is not ready, until it is marked.
pub(super) struct Unmarked(Option<View<WatchedPod>>);

impl Controller for PodSyncs {
    type Key = ObjectKey;
    type Observed = Unmarked;
    type Step = Mark;
    type Outcome = ();

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Unmarked>, SyncError> {
        let pod = self.pods.get(key).map_err(|pod| SyncError::Unreadable(format!("Pod {}", pod.key)))?;
        let Some(pod) = pod else { return Ok(Observation::Nothing) };
        if !self.watching.is_not_ready(&pod.get::<Placement>().node) {
            return Ok(Observation::Nothing);
        }
        Ok(Observation::Ready(Unmarked(Some(pod))))
    }

    fn plan(&self, observed: &Unmarked, _: Time) -> Plan<Mark> {
        if observed.0.is_some() { Plan::step(Mark) } else { Plan::done() }
    }

    async fn act(&self, _: &ObjectKey, observed: &Unmarked, _: &Mark) -> Result<(), SyncError> {
        match &observed.0 {
            Some(pod) => self.writes.mark_not_ready(pod).await,
            None => Ok(()),
        }
    }

    fn absorb(&self, observed: &mut Unmarked, _: Mark, result: StepResult<()>) {
        if matches!(result, StepResult::Done(())) {
            observed.0 = None;
        }
    }
}
