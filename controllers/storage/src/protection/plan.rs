//! Decides about the finalizer of an object.

use std::time::Duration;

use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;

/// The wait before another look at an object of which only the API server shows a user.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// An object, and what is known of its users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Observed {
    /// Whether the object is being deleted.
    pub is_deleting: bool,
    /// Whether the object has the finalizer.
    pub has_finalizer: bool,
    /// Whether a cache shows a user.
    pub is_used: bool,
    /// Whether the API server shows a user. `None` if it has not been asked.
    pub is_used_now: Option<bool>,
    /// Whether the finalizer has been written.
    pub is_done: bool,
}

/// An action of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Add the finalizer. The API server's admission does that for new objects.
    Add,
    /// Ask the API server for users. The cache may not show the newest yet.
    Ask,
    /// Remove the finalizer.
    Remove,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Whether the API server shows a user.
    Asked(bool),
    /// The finalizer is as wanted, or the object is gone.
    Written,
}

impl Observed {
    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, result: &StepResult<Outcome>) {
        match result {
            StepResult::Done(Outcome::Asked(is_used)) => self.is_used_now = Some(*is_used),
            StepResult::Done(Outcome::Written) => self.is_done = true,
            StepResult::Failed(_) | StepResult::Skipped => {}
        }
    }
}

/// An object has the finalizer until it is deleted and neither a cache nor the API server shows a user.
pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    if observed.is_done {
        return Plan::done();
    }
    match (observed.is_deleting, observed.has_finalizer) {
        (false, false) => Plan::step(Step::Add),
        (false, true) | (true, false) => Plan::done(),
        // The end of that user queues the object.
        (true, true) if observed.is_used => Plan::done(),
        (true, true) => match observed.is_used_now {
            None => Plan::step(Step::Ask),
            Some(true) => Plan::Done { requeue_after: Some(LOOK_AGAIN) },
            Some(false) => Plan::step(Step::Remove),
        },
    }
}
