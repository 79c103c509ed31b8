//! Which pods are garbage.

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

/// How many calls are under way at once. The client's own limit is the narrower one, by far.
const AT_ONCE: usize = 20;
/// How many pods are collected in one sync: at the default limit of a client, some 25 seconds' worth, so that neither a stop
/// nor anything new waits for much longer. What is left is for the next sync of the same [`Round`].
const PER_SYNC: usize = 500;
/// When the round goes on after that many: a while in which the cache learns of the last deletions.
const BREATH: Duration = Duration::from_secs(1);

/// All that is looked at.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// All that can be read, in no order.
    pub pods: Vec<View<CollectedPod>>,
    /// By name; `None` for one that can't be read.
    pub nodes: HashMap<ArcStr, Option<View<CollectedNode>>>,
    /// The nodes that the cache has not known for as long as a quarantine takes (though it may know them by now).
    pub out_of_quarantine: BTreeSet<ArcStr>,
    /// How many terminated pods may exist; `None`: any number.
    pub terminated_threshold: Option<usize>,
    /// The steps that come before any collection have been taken.
    pub probed: bool,
    /// What has been done in this round.
    pub round: Round,
}

/// One way through all garbage, in as many syncs as it takes. Each pod is tried once, so that those that can't be deleted
/// keep no others from their turn.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// The pods that have been dealt with, well or not.
    handled: HashSet<Uid>,
    /// How many of them in this sync.
    in_this_sync: usize,
    /// The nodes whose pods are collected in this round. The next sync asks for them anew, without quarantine: a node of the
    /// same name may have come since.
    gone: BTreeSet<ArcStr>,
}

impl Round {
    /// Whether this sync has done its share, and the round goes on in the next one.
    pub fn goes_on(&self) -> bool {
        self.in_this_sync >= PER_SYNC
    }

    /// The same round in the next sync, and the nodes to ask for first. Pods that no longer exist are forgotten, so that a
    /// round does not grow for as long as new garbage comes in.
    pub fn go_on(self, pods: &[View<CollectedPod>]) -> (Self, BTreeSet<ArcStr>) {
        let left = pods.iter().map(|pod| &pod.meta().uid).filter(|uid| self.handled.contains(*uid));
        (Self { handled: left.cloned().collect(), ..Self::default() }, self.gone)
    }
}

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Give an unknown node time to turn up. Nothing happens if it has been given that before.
    Quarantine(ArcStr),
    /// Ask the API server whether the node exists.
    ReadNode(ArcStr),
    /// Remove a pod.
    Collect(Collection),
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node will be handed out when its time is up.
    Quarantined,
    /// There is such a node.
    NodeExists,
    /// There is none.
    NodeIsGone,
    /// The pod is gone, or about to be.
    Collected,
}

impl Observed {
    /// Adds what came of a step.
    pub fn absorb(&mut self, step: Step, result: &StepResult<Outcome>) {
        match step {
            Step::Quarantine(_) => self.probed = true,
            Step::ReadNode(node) => {
                self.probed = true;
                // Of a node that nobody could tell about nothing is concluded; it is in quarantine again.
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

/// Decides: first what must be known of nodes, then all pods that are garbage at once, whatever becomes of each.
pub fn plan(observed: &Observed, now: Time) -> Plan<Step> {
    let together =
        |steps| Plan::Act(Batch { steps, pace: Pace::Together(AT_ONCE), on_failure: OnFailure::PlanAgain });
    if !observed.probed {
        let unknown = unknown_nodes(&observed.pods, &observed.nodes);
        let doubted = observed.out_of_quarantine.iter().filter(|node| !observed.nodes.contains_key(*node));
        let reads: Vec<_> = doubted.cloned().map(Step::ReadNode).collect();
        let steps: Vec<_> = unknown.into_iter().map(Step::Quarantine).chain(reads).collect();
        if !steps.is_empty() {
            return together(steps);
        }
    }
    if observed.round.goes_on() {
        return Plan::Done { requeue_after: Some(BREATH) };
    }
    let mut seen = HashSet::new();
    let steps: Vec<_> = garbage(observed)
        .filter(|(pod, _)| !observed.round.handled.contains(&pod.meta().uid))
        .filter(|(pod, _)| seen.insert(&pod.meta().uid))
        .filter_map(|(pod, reason)| Collection::of(pod, reason, now).map(Step::Collect))
        .take(PER_SYNC - observed.round.in_this_sync)
        .collect();
    if steps.is_empty() { Plan::done() } else { together(steps) }
}

/// In upstream's order; a pod may be garbage for several reasons, and the first one counts.
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
