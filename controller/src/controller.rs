//! What a controller is: observe, plan, act.

use std::fmt::{Debug, Display};
use std::future::Future;
use std::hash::Hash;
use std::time::Duration;

use steersman_api::{Status, Time};

use crate::plan::Plan;

/// A controller whose work comes by keys from a queue.
///
/// A sync reads what the caches hold now, and would do the right thing had every event been lost but the last.
pub trait Controller: Send + Sync + 'static {
    /// What the queue holds: mostly an `ObjectKey`.
    type Key: Clone + Eq + Hash + Display + Debug + Send + Sync + 'static;
    /// All that policy looks at, including what came of the steps so far.
    type Observed: Send;
    /// Something to do: mostly a write.
    type Step: Debug + Send + Sync;
    /// What came of a step.
    type Outcome: Send;

    /// This process begins to lead, and others have led before it: what is remembered of their objects is worth nothing.
    /// Called before the first sync of each term.
    fn term_begins(&self) {}

    /// Reads what the caches hold about a key.
    ///
    /// # Errors
    /// An object that can't be read, or a read of the API server that failed.
    fn observe(
        &self,
        key: &Self::Key,
    ) -> impl Future<Output = Result<Observation<Self::Observed>, SyncError>> + Send;

    /// Decides: pure, and the only place where policy is.
    fn plan(&self, observed: &Self::Observed, now: Time) -> Plan<Self::Step>;

    /// Carries out one step.
    ///
    /// # Errors
    /// The call failed. Whether it may have had an effect all the same is for the controller to remember.
    fn act(
        &self,
        key: &Self::Key,
        step: &Self::Step,
    ) -> impl Future<Output = Result<Self::Outcome, SyncError>> + Send;

    /// Whether an outcome makes the rest of its batch pointless: steps that were not begun are then skipped, as after a
    /// failure.
    fn ends_batch(&self, _outcome: &Self::Outcome) -> bool {
        false
    }

    /// Adds what came of a step to what is observed. Called for each step in order, also for those that were skipped.
    fn absorb(&self, observed: &mut Self::Observed, step: Self::Step, result: StepResult<Self::Outcome>);

    /// The sync has ended, one way or the other; also by a panic. Not called after [`Observation::Behind`], nor if the sync
    /// is dropped under way.
    fn finished(&self, _key: &Self::Key, _result: Result<(), &SyncError>) {}
}

/// What a look at the caches gave.
#[derive(Debug)]
pub enum Observation<O> {
    /// Enough to plan.
    Ready(O),
    /// The cache has not yet seen this controller's own writes: look again when it has, at the latest after this long.
    Behind(Duration),
    /// Nothing is to be done about this key: forget its back-off.
    Nothing,
}

/// What came of one step of a batch.
#[derive(Debug)]
pub enum StepResult<T> {
    /// It was done.
    Done(T),
    /// It failed.
    Failed(SyncError),
    /// It was not begun, since another failed or made it pointless.
    Skipped,
}

/// Why a sync failed. All of them mean: again, after the key's back-off.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SyncError {
    /// The API server refused.
    #[error("{what}: {status}")]
    Refused {
        /// What was attempted, such as `creating pod default/a-x7k2p`.
        what: String,
        /// Its answer.
        status: Box<Status>,
    },
    /// No answer came: nobody knows whether it was done.
    #[error("{what}: the outcome is unknown: {why}")]
    Unknown {
        /// What was attempted.
        what: String,
        /// What became of the call.
        why: String,
    },
    /// Leadership is not sure: the write was not sent.
    #[error("{what}: not the leader")]
    Fenced {
        /// What was attempted.
        what: String,
    },
    /// Leadership was lost while the write was under way: nobody knows whether it was done.
    #[error("{what}: the outcome is unknown: no longer the leader")]
    Abandoned {
        /// What was attempted.
        what: String,
    },
    /// A cached object's body can't be read.
    #[error("{0} can't be read")]
    Unreadable(String),
    /// Policy wants what can't be done.
    #[error("{0}")]
    Failed(String),
}

impl SyncError {
    /// The API server's answer, if it gave one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Whether what was attempted has surely had no effect. If not, nobody can tell but the API server: it may fail (5xx)
    /// after it has stored something.
    pub fn surely_not_done(&self) -> bool {
        match self {
            Self::Unknown { .. } | Self::Abandoned { .. } => false,
            Self::Refused { status, .. } => (400..500).contains(&status.code),
            Self::Fenced { .. } | Self::Unreadable(_) | Self::Failed(_) => true,
        }
    }

    /// Whether this process stopped the write itself, since it does not lead (any more). That is no fault, and no reason for
    /// a warning or an event: the next leader does the work.
    pub fn is_end_of_leadership(&self) -> bool {
        matches!(self, Self::Fenced { .. } | Self::Abandoned { .. })
    }

    /// Whether the server answered with this reason, such as `NotFound`, `AlreadyExists` or `Conflict`.
    pub fn is(&self, reason: &str) -> bool {
        self.status().is_some_and(|status| status.reason == reason)
    }
}
