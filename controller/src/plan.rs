//! Plans: the next steps that policy decides on for one key.

use std::time::Duration;

/// The next steps for one key, or that none are left.
///
/// Policy is a pure function from the observed state and the time to a plan. The runner carries out the plan's steps,
/// adds the result of each to the observed state and plans again, until the plan is [`Done`](Self::Done). If policy
/// needs to know something that only a call can tell (is the node really gone?), the plan has a step that reads it.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan<S> {
    /// Carry out these steps, then plan again.
    Act(Batch<S>),
    /// Nothing more to do until something changes, or `requeue_after` has passed.
    Done {
        /// The time until the next sync, even if nothing changes. `None` waits for a change. After a failed step it only
        /// shortens the key's back-off.
        requeue_after: Option<Duration>,
    },
}

impl<S> Plan<S> {
    /// Nothing more to do until something changes.
    pub const fn done() -> Self {
        Self::Done { requeue_after: None }
    }

    /// A plan of one step. If the step fails, the sync fails.
    pub fn step(step: S) -> Self {
        Self::Act(Batch { steps: vec![step], pace: Pace::InOrder, on_failure: OnFailure::Stop })
    }
}

/// Steps that the runner carries out before it plans again.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<S> {
    /// The steps, in the order in which the runner begins them.
    pub steps: Vec<S>,
    /// How many steps run at once.
    pub pace: Pace,
    /// What the runner does if a step fails.
    pub on_failure: OnFailure,
}

/// How many steps of a batch run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// One after the other. If one fails, the runner skips the rest.
    InOrder,
    /// Rounds of one step, then two, four, and so on. After a round with a failure, the runner skips the rest: if a
    /// quota refuses pods, the controller requests only a few of them in vain.
    SlowStart,
    /// All of them, at most this many at a time, even if some fail.
    Together(usize),
}

/// What the runner does with the sync if a step fails, once it has absorbed all results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Ends the sync with the error, and tries the key again after its back-off.
    Stop,
    /// Plans again. Once the plan is done, ends the sync with the first error. The key comes again after its back-off, or
    /// after `requeue_after` if that is sooner.
    PlanAgain,
}
