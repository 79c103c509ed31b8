//! Decides what a node needs.

use steersman_api::{ArcStr, Meta};
use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;

use super::ledger::{Certainty, Holding};

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The node's metadata.
    pub meta: Meta,
    /// The ranges that the cache shows. The cache may be behind.
    pub cidrs: Vec<ArcStr>,
    /// The blocks that the node holds.
    pub holding: Option<Holding>,
    /// Whether a step has left nothing to do.
    pub is_done: bool,
}

/// An action of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Record the ranges that the node has.
    Record,
    /// Hold the next free blocks for the node.
    Propose,
    /// Write the blocks that the node holds into it.
    Write,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The node holds these blocks.
    Proposed(Holding),
    /// Nothing is left to do: the node has its ranges, or is gone.
    Done,
}

impl Observed {
    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, result: StepResult<Outcome>) {
        match result {
            StepResult::Done(Outcome::Proposed(holding)) => self.holding = Some(holding),
            StepResult::Done(Outcome::Done) => self.is_done = true,
            StepResult::Failed(_) | StepResult::Skipped => {}
        }
    }
}

/// A node keeps the ranges that it has. One without ranges gets a block of each cluster range, unless it is being deleted.
/// Blocks whose write may have failed are written again: the node must not get others while it may have these.
pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    if observed.is_done {
        return Plan::done();
    }
    if !observed.cidrs.is_empty() {
        return Plan::step(Step::Record);
    }
    if observed.meta.is_deleting() {
        return Plan::done();
    }
    match &observed.holding {
        None => Plan::step(Step::Propose),
        Some(Holding { certainty: Certainty::Proposed | Certainty::InDoubt, .. }) => Plan::step(Step::Write),
        // The cache does not show it yet.
        Some(Holding { certainty: Certainty::Written, .. }) => Plan::done(),
    }
}
