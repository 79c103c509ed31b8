//! What policy decides: the next steps about one key.

use std::time::Duration;

/// The answer of policy to what it observed.
///
/// Policy is a pure function from what is observed, and the time, to a plan. The runner carries the plan's steps out,
/// adds what came of each to what is observed, and asks again, until there is nothing more to do. A question that only a
/// call can answer (is the node really gone?) is a step as well: a read.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan<S> {
    /// Carry these out, then plan again.
    Act(Batch<S>),
    /// Nothing more to do, until something changes or this long has passed.
    Done {
        /// When to look again although nothing changed. After a failed step it only shortens the key's back-off.
        requeue_after: Option<Duration>,
    },
}

impl<S> Plan<S> {
    /// Nothing more to do until something changes.
    pub const fn done() -> Self {
        Self::Done { requeue_after: None }
    }

    /// One step; if it fails, the sync fails.
    pub fn step(step: S) -> Self {
        Self::Act(Batch { steps: vec![step], pace: Pace::InOrder, on_failure: OnFailure::Stop })
    }
}

/// Steps that are carried out together.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<S> {
    /// In the order in which they are begun.
    pub steps: Vec<S>,
    /// How many at once.
    pub pace: Pace,
    /// What a failure does.
    pub on_failure: OnFailure,
}

/// How many steps of a batch are under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// One after the other; one that fails keeps those behind it from being begun.
    InOrder,
    /// One, then two, four, and so on; a round with a failure is the last: if a quota refuses pods, one asks for few.
    SlowStart,
    /// All of them (so many at the most at any time), whatever becomes of the others.
    Together(usize),
}

/// What becomes of the sync when a step fails. Steps that were not begun for it count as skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The sync ends with the error, and comes again after its back-off.
    Stop,
    /// Policy is told and asked again; once it is done, the sync ends with the first error. The key comes again after its
    /// back-off, or sooner if policy's `requeue_after` is shorter.
    PlanAgain,
}
