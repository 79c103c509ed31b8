//! The interface of a controller: observe, plan, act.

use std::fmt::{Debug, Display};
use std::future::Future;
use std::hash::Hash;
use std::time::Duration;

use steersman_api::{Status, Time};

use crate::own_writes::Awaited;
use crate::plan::Plan;

/// A controller that syncs the keys of a queue.
///
/// A sync acts on the current contents of the caches and not on single events: one event is enough to bring it up to
/// date.
pub trait Controller: Send + Sync + 'static {
    /// The queue's keys; usually `ObjectKey`.
    type Key: Clone + Eq + Hash + Display + Debug + Send + Sync + 'static;
    /// The state that [`plan`](Self::plan) decides from, with the results of the steps so far.
    type Observed: Send + Sync;
    /// An action, usually a write.
    type Step: Debug + Send + Sync;
    /// The result of a step that succeeded.
    type Outcome: Send;

    /// Discards what the controller remembers of objects: another process may have led, and changed them, since it last
    /// ran. The runner calls this at the start of each term, before the first sync.
    fn term_begins(&self) {}

    /// Reads the state of a key from the caches.
    ///
    /// # Errors
    /// A cached object can't be decoded, or a read from the API server failed.
    fn observe(
        &self,
        key: &Self::Key,
    ) -> impl Future<Output = Result<Observation<Self::Observed>, SyncError>> + Send;

    /// Decides on the next steps. A pure function, which contains all of the controller's policy.
    fn plan(&self, observed: &Self::Observed, now: Time) -> Plan<Self::Step>;

    /// Carries out one step of a plan for `observed`. Steps of one batch may run at the same time; all see the state from
    /// before the batch.
    ///
    /// # Errors
    /// The call failed. The controller must remember whether the call may have had an effect all the same.
    fn act(
        &self,
        key: &Self::Key,
        observed: &Self::Observed,
        step: &Self::Step,
    ) -> impl Future<Output = Result<Self::Outcome, SyncError>> + Send;

    /// Whether an outcome makes the rest of its batch pointless. The runner then skips the steps that have not begun, as
    /// after a failure.
    fn ends_batch(&self, _outcome: &Self::Outcome) -> bool {
        false
    }

    /// Adds the result of a step to `observed`. The runner calls this for each step in order, skipped ones included.
    fn absorb(&self, observed: &mut Self::Observed, step: Self::Step, result: StepResult<Self::Outcome>);

    /// The runner calls this at the end of each sync, whether it succeeded, failed or panicked. It does not call this after
    /// [`Observation::Behind`], nor if the sync is dropped under way.
    fn finished(&self, _key: &Self::Key, _sync: FinishedSync<'_, Self::Observed>) {}

    /// The controller's own writes for a key that caches do not show yet, for people who look into a running process. Must
    /// return at once.
    fn awaited(&self, _key: &Self::Key) -> Vec<Awaited> {
        Vec::new()
    }
}

/// A sync that has ended.
#[derive(Debug)]
pub struct FinishedSync<'a, O> {
    /// The time from the sync's beginning, before [`Controller::observe`].
    pub took: Duration,
    /// The state that the sync observed, with the results of its steps. `None` if [`Controller::observe`] did
    /// not return [`Observation::Ready`].
    pub observed: Option<O>,
    /// Whether the sync succeeded.
    pub result: Result<(), &'a SyncError>,
}

/// The result of [`Controller::observe`].
#[derive(Debug)]
pub enum Observation<O> {
    /// The state to plan from.
    Ready(O),
    /// A cache does not show this controller's own writes yet. The runner syncs the key again when the key's objects
    /// change, at the latest after this time.
    Behind(Duration),
    /// The key needs no work. The runner resets its back-off.
    Nothing,
}

/// The result of one step of a batch.
#[derive(Debug)]
pub enum StepResult<T> {
    /// The step succeeded.
    Done(T),
    /// The step failed.
    Failed(SyncError),
    /// The runner did not begin the step, because another one failed or made it pointless.
    Skipped,
}

/// Why a sync failed. The runner tries the key again after its back-off, whatever the error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SyncError {
    /// The API server answered with an error.
    #[error("{what}: {status}")]
    Refused {
        /// The attempted action, such as `creating pod default/a-x7k2p`.
        what: String,
        /// The server's answer.
        status: Box<Status>,
    },
    /// No answer came: the API server may have acted on the call or not.
    #[error("{what}: the outcome is unknown: {why}")]
    Unknown {
        /// The attempted action.
        what: String,
        /// How the call failed.
        why: String,
    },
    /// No connection to the API server could be made: the attempted action surely had no effect.
    #[error("{what}: {why}")]
    Unreachable {
        /// The attempted action.
        what: String,
        /// Why there is no connection.
        why: String,
    },
    /// This process may not lead any more, so the fence kept the write back.
    #[error("{what}: not the leader")]
    Fenced {
        /// The attempted action.
        what: String,
    },
    /// This process lost its leadership while the write was under way: the API server may have acted on it or not.
    #[error("{what}: the outcome is unknown: no longer the leader")]
    Abandoned {
        /// The attempted action.
        what: String,
    },
    /// A cached object can't be decoded.
    #[error("{0} can't be read")]
    Unreadable(String),
    /// Another fault. The attempted action, if there was one, surely had no effect.
    #[error("{0}")]
    Failed(String),
}

impl SyncError {
    /// The API server's answer; `None` for other errors.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Whether the attempted action surely had no effect. If false, only the API server can tell: it may answer with a
    /// 5xx after it has stored something.
    pub fn surely_not_done(&self) -> bool {
        match self {
            Self::Unknown { .. } | Self::Abandoned { .. } => false,
            Self::Refused { status, .. } => (400..500).contains(&status.code),
            Self::Unreachable { .. } | Self::Fenced { .. } | Self::Unreadable(_) | Self::Failed(_) => true,
        }
    }

    /// Whether this process stopped the write itself, since it does not lead (any more). That is no fault, and no reason for
    /// a warning or an event: the next leader does the work.
    pub fn is_end_of_leadership(&self) -> bool {
        matches!(self, Self::Fenced { .. } | Self::Abandoned { .. })
    }

    /// Whether the API server is to blame, whatever the call: it could not be reached, did not answer, is too busy (429), does not
    /// accept the credentials (401), or its store or a proxy before it failed. Then the failure tells nothing about the key.
    ///
    /// The API server hands on errors of etcd, such as `etcdserver: too many requests`, as 500 without a reason. A 500 with
    /// the reason `InternalError` may concern one object, for instance if a webhook fails.
    pub fn is_servers_fault(&self) -> bool {
        match self {
            Self::Unknown { .. } | Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => match status.code {
                401 | 429 | 502..=504 => true,
                500 => status.reason.is_empty(),
                _ => false,
            },
            Self::Fenced { .. } | Self::Abandoned { .. } | Self::Unreadable(_) | Self::Failed(_) => false,
        }
    }

    /// Whether the server answered with this reason, such as `NotFound`, `AlreadyExists` or `Conflict`.
    pub fn is(&self, reason: &str) -> bool {
        self.status().is_some_and(|status| status.reason == reason)
    }
}
