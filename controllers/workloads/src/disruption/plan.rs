//! What the controller does next about a budget.

use std::time::Duration;

use steersman_api::{OwnerReference, ResourceVersion, Time};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};

use super::budget::Budget;
use super::notice::Notice;
use super::observed::{Observed, Replicas};
use super::status::Status;
use super::verdict::{Unknown, Verdict};

/// An action of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Read the scale of an owner whose kind is not cached, or that the cache lacks.
    ReadScale(OwnerReference),
    /// Record an event.
    Record(Notice),
    /// Write the status, unless the budget has changed since it was read.
    WriteStatus(Box<Status>),
    /// Read the budget from the API server.
    Reread,
    /// Sync the budget again after this time.
    Recheck(Duration),
}

/// The result of a step.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The step was done.
    Done,
    /// The budget does not exist.
    Gone,
    /// The answer about an owner's scale.
    Scale(Replicas),
    /// The status was written, and the budget has this version now.
    Written(ResourceVersion),
    /// The status was not written: the budget has changed.
    Outdated,
    /// The budget as the API server has it.
    Reread(Box<Budget>),
}

/// Number of scales that a sync reads at a time.
const READS_AT_ONCE: usize = 8;

/// Decides on the next steps, in this order:
///
/// 1. after a conflict, the budget is read again: the API server has agreed to an eviction, or a user has changed the budget;
/// 2. the scales of foreign owners are read;
/// 3. events are recorded, and the status is written if it has changed. If it can't be computed, it allows no disruptions;
/// 4. the next sync is scheduled for when an evicted pod should have been deleted.
pub(super) fn plan(observed: &Observed, now: Time) -> Plan<Step> {
    if observed.done.gone {
        return Plan::done();
    }
    if observed.done.outdated {
        return Plan::step(Step::Reread);
    }
    let Verdict { notices, status, recheck } = match Verdict::of(observed, now) {
        Ok(verdict) => verdict,
        Err(Unknown(owners)) => {
            let steps = owners.into_iter().map(Step::ReadScale).collect();
            let pace = Pace::Together(READS_AT_ONCE);
            // A scale that can't be read is known not to be known: the status then says so.
            return Plan::Act(Batch { steps, pace, on_failure: OnFailure::PlanAgain });
        }
    };
    let mut steps = Vec::new();
    if !observed.done.recorded {
        steps.extend(notices.into_iter().map(Step::Record));
    }
    let is_settled = status.is_none();
    steps.extend(status.map(|status| Step::WriteStatus(Box::new(status))));
    if is_settled && !observed.done.scheduled {
        steps.extend(recheck.map(Step::Recheck));
    }
    if steps.is_empty() {
        return Plan::done();
    }
    Plan::Act(Batch { steps, pace: Pace::InOrder, on_failure: OnFailure::Stop })
}
