//! What a sync knows of a budget and its pods.

use std::collections::HashMap;

use steersman_api::{ResourceVersion, Uid};
use steersman_controller::controller::StepResult;

use super::budget::Budget;
use super::owners::Scale;
use super::plan::{Outcome, Step};
use super::pods::Pod;

/// A budget and its pods as they were found, and what the sync has done since.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The budget.
    pub budget: Budget,
    /// The pods that the budget selects, by name; or why they can't be told.
    pub pods: Result<Vec<Pod>, String>,
    /// A version that the cache of pods had reached before `pods` were read.
    pub pods_version: ResourceVersion,
    /// A version at which the budget had all entries of `disruptedPods`. The versions of all kinds are those of one history.
    pub agreed_at: ResourceVersion,
    /// The scales of owners that are not cached, by the uids that the pods name.
    pub foreign: HashMap<Uid, Replicas>,
    /// What the sync has done already.
    pub done: Done,
}

/// The answer about the scale of an owner that is not cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Replicas {
    /// The owner has this scale.
    Of(Scale),
    /// There is no such owner.
    NoOwner,
    /// The scale can't be read, for this reason.
    Failed(String),
}

/// What a sync does at most once, or a few times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// The budget is gone.
    pub gone: bool,
    /// The events are recorded.
    pub recorded: bool,
    /// The next sync is scheduled.
    pub scheduled: bool,
    /// The budget has changed since it was read, and must be read again.
    pub outdated: bool,
    /// The number of writes that failed because the budget had changed.
    pub conflicts: u32,
}

impl Observed {
    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Outcome>) {
        let outcome = match result {
            StepResult::Done(outcome) => outcome,
            StepResult::Skipped => return,
            StepResult::Failed(error) => {
                if let Step::ReadScale(owner) = step {
                    // As upstream: the API server's own words.
                    let why =
                        error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
                    self.foreign.insert(owner.uid, Replicas::Failed(why));
                }
                return;
            }
        };
        match (step, outcome) {
            (_, Outcome::Gone) => self.done.gone = true,
            (Step::ReadScale(owner), Outcome::Scale(replicas)) => {
                _ = self.foreign.insert(owner.uid, replicas)
            }
            (Step::Record(_), _) => self.done.recorded = true,
            (Step::WriteStatus(status), Outcome::Written(version)) => {
                self.budget.status = *status;
                self.budget.meta.resource_version = version;
            }
            (Step::WriteStatus(_), Outcome::Outdated) => {
                self.done.outdated = true;
                self.done.conflicts += 1;
            }
            (Step::Reread, Outcome::Reread(budget)) => {
                self.agreed_at = budget.meta.resource_version;
                self.budget = *budget;
                self.done.outdated = false;
            }
            (Step::Recheck(_), _) => self.done.scheduled = true,
            (step, outcome) => debug_assert!(false, "{outcome:?} must not follow from {step:?}"),
        }
    }
}
