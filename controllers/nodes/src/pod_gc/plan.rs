//! Decides which pods are garbage.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use steersman_api::{ArcStr, Time, Uid};
use steersman_informer::View;

use super::collection::{Collection, Reason};
use super::orphaned::{orphaned, unknown_nodes};
use super::terminated::terminated;
use super::terminating::{out_of_service, unscheduled};
use super::{CollectedNode, CollectedPod};
use steersman_controller::controller::StepResult;
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

/// Maximum number of concurrent calls. The client's own rate limit is much narrower.
const MAX_CONCURRENT_CALLS: usize = 20;
/// Maximum number of pods that one sync collects. At a client's default rate limit they take some 25 seconds, so that
/// neither shutdown nor new garbage waits much longer. The next sync of the same [`Round`] collects the rest.
const MAX_PER_SYNC: usize = 500;
/// The pause before the next sync of a round, in which the cache receives the last deletions.
const PAUSE: Duration = Duration::from_secs(1);

/// What a sync decides on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// All readable pods, in no particular order.
    pub pods: Vec<View<CollectedPod>>,
    /// The nodes by name; `None` for a node that can't be read.
    pub nodes: HashMap<ArcStr, Option<View<CollectedNode>>>,
    /// Nodes whose quarantine has ended. The cache may have them by now.
    pub out_of_quarantine: BTreeSet<ArcStr>,
    /// Maximum number of terminated pods; `None`: any number.
    pub terminated_threshold: Option<usize>,
    /// Whether the sync has taken the steps that come before any collection.
    pub probed: bool,
    /// The progress of the current round.
    pub round: Round,
}

/// One pass over all garbage, in as many syncs as it takes. It tries each pod once, so that pods whose deletion fails do
/// not block the others.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// The pods that were tried, successfully or not.
    handled: HashSet<Uid>,
    /// How many of `handled` were tried in this sync.
    in_this_sync: usize,
    /// The nodes that do not exist and whose pods this sync collects. The next sync of the round asks the API server for
    /// them again, without quarantine: a node of the same name may exist by then.
    gone: BTreeSet<ArcStr>,
}

impl Round {
    /// Whether this sync has reached its limit, so that the round continues in the next one.
    pub fn is_unfinished(&self) -> bool {
        self.in_this_sync >= MAX_PER_SYNC
    }

    /// Continues the round in the next sync. Returns the nodes to read first. Forgets pods that no longer exist, so that
    /// the round's memory is bounded while new garbage keeps coming.
    pub fn resume(self, pods: &[View<CollectedPod>]) -> (Self, BTreeSet<ArcStr>) {
        let left = pods.iter().map(|pod| &pod.meta().uid).filter(|uid| self.handled.contains(*uid));
        (Self { handled: left.cloned().collect(), ..Self::default() }, self.gone)
    }
}

/// A step of a sync.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Put an unknown node into quarantine. Does nothing if it is there already.
    Quarantine(ArcStr),
    /// Ask the API server whether the node exists.
    ReadNode(ArcStr),
    /// Delete a pod.
    Collect(Collection),
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node is in quarantine.
    Quarantined,
    /// The node exists.
    NodeExists,
    /// The node does not exist.
    NodeIsGone,
    /// The pod is deleted, or being deleted.
    Collected,
}

impl Observed {
    /// Records the result of a step.
    pub fn absorb(&mut self, step: Step, result: &StepResult<Outcome>) {
        match step {
            Step::Quarantine(_) => self.probed = true,
            Step::ReadNode(node) => {
                self.probed = true;
                // If the read failed, the node is not known to be gone. It is in quarantine again.
                if matches!(result, StepResult::Done(Outcome::NodeIsGone)) {
                    self.round.gone.insert(node);
                }
            }
            Step::Collect(pod) => {
                self.round.handled.insert(pod.uid);
                self.round.in_this_sync += 1;
            }
        }
    }
}

/// Plans first the steps for unknown nodes, then one batch with the pods that are garbage. A failure does not stop the
/// batch.
pub fn plan(observed: &Observed, now: Time) -> Plan<Step> {
    let together = |steps| {
        Plan::Act(Batch {
            steps,
            pace: Pace::Together(MAX_CONCURRENT_CALLS),
            on_failure: OnFailure::PlanAgain,
        })
    };
    if !observed.probed {
        let unknown = unknown_nodes(&observed.pods, &observed.nodes);
        let doubted = observed.out_of_quarantine.iter().filter(|node| !observed.nodes.contains_key(*node));
        let reads: Vec<_> = doubted.cloned().map(Step::ReadNode).collect();
        let steps: Vec<_> = unknown.into_iter().map(Step::Quarantine).chain(reads).collect();
        if !steps.is_empty() {
            return together(steps);
        }
    }
    if observed.round.is_unfinished() {
        return Plan::Done { requeue_after: Some(PAUSE) };
    }
    let mut seen = HashSet::new();
    let steps: Vec<_> = garbage(observed)
        .filter(|(pod, _)| !observed.round.handled.contains(&pod.meta().uid))
        .filter(|(pod, _)| seen.insert(&pod.meta().uid))
        .filter_map(|(pod, reason)| Collection::of(pod, reason, now).map(Step::Collect))
        .take(MAX_PER_SYNC - observed.round.in_this_sync)
        .collect();
    if steps.is_empty() { Plan::done() } else { together(steps) }
}

/// All garbage, in upstream's order. A pod may occur several times; its first reason counts.
fn garbage(observed: &Observed) -> impl Iterator<Item = (&View<CollectedPod>, Reason)> {
    let Observed { pods, nodes, round, terminated_threshold, .. } = observed;
    let of = |reason| move |pod| (pod, reason);
    let terminated = terminated_threshold.map(|threshold| terminated(pods, threshold)).unwrap_or_default();
    terminated
        .into_iter()
        .map(of(Reason::Terminated))
        .chain(out_of_service(pods, nodes).map(of(Reason::OutOfService)))
        .chain(orphaned(pods, &round.gone).map(of(Reason::Orphaned)))
        .chain(unscheduled(pods).map(of(Reason::Unscheduled)))
}
