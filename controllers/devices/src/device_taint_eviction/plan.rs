//! What to do about a pod that uses devices.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_api::{Time, Uid};
use steersman_controller::plan::Plan;

use super::eviction::Eviction;

/// What a sync decides on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observed {
    /// The pod's uid.
    pub uid: Uid,
    /// When and why the pod must go. `None` if it may stay.
    pub eviction: Option<Eviction>,
    /// What this process knows of the pod's eviction.
    pub planned: Planned,
    /// The pod as the API server has it, once it was read.
    pub live: Option<Live>,
}

/// What this process knows of a pod's eviction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Planned {
    /// Nothing: no eviction was planned.
    #[default]
    No,
    /// An eviction was planned before some of its present reasons were known.
    ForLess,
    /// The eviction is planned, with all of its present reasons.
    Yes,
}

/// A pod as the API server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Live {
    /// The pod is gone, replaced, or being deleted.
    Gone,
    /// The pod runs.
    Runs {
        /// Since when the pod has the condition `DisruptionTarget` with the status `True`. `None` if it does not have it.
        disrupted_since: Option<Time>,
        /// Whether the condition is this controller's.
        is_marked: bool,
    },
}

/// A step of a sync.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Remember that the pod's eviction is planned, and tell the status of the rules among its reasons.
    Remember,
    /// Forget the planned eviction, and record an event about its end.
    Cancel,
    /// Forget the planned eviction: there is nothing left to evict.
    Forget,
    /// Read the pod from the API server.
    Read,
    /// Record an event, set the condition `DisruptionTarget` unless the pod is marked already, and delete the pod of this uid,
    /// whose eviction was due at this time.
    Evict {
        /// The pod's uid.
        uid: Uid,
        /// When the eviction was due.
        due: Time,
        /// The condition's last transition. `None` if the pod has this controller's condition already.
        mark: Option<Time>,
    },
}

/// Decides on the next step.
pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan<Step> {
    let is_planned = observed.planned != Planned::No;
    let Some(Eviction { due, .. }) = observed.eviction else {
        return if is_planned { Plan::step(Step::Cancel) } else { Plan::done() };
    };
    let left = Timestamp::from(due).duration_since(now);
    match &observed.live {
        Some(Live::Gone) if is_planned => Plan::step(Step::Forget),
        Some(Live::Gone) => Plan::done(),
        _ if observed.planned != Planned::Yes => Plan::step(Step::Remember),
        _ if left > SignedDuration::ZERO => {
            Plan::Done { requeue_after: Some(Duration::try_from(left).unwrap_or_default()) }
        }
        None => Plan::step(Step::Read),
        Some(Live::Runs { disrupted_since, is_marked }) => {
            let mark = (!is_marked).then(|| disrupted_since.unwrap_or_else(|| now.into()));
            Plan::step(Step::Evict { uid: observed.uid.clone(), due, mark })
        }
    }
}
