//! Decides about an owner that references name and that no cache shows. Pure.

use std::time::Duration;

use steersman_controller::controller::StepResult;
use steersman_controller::plan::Plan;

use super::super::owners::Standing;

/// The wait until an owner of a watched kind, which exists, but not in the cache, is looked up again.
pub(super) const UNSEEN: Duration = Duration::from_secs(30);
/// The same for an owner of a kind that the collector can't watch. Only such a look finds the end of that owner.
pub(super) const UNWATCHED: Duration = Duration::from_secs(300);

/// The state that decides about an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Owner {
    /// What is known of the owner.
    pub(super) standing: Standing,
    /// Where the knowledge comes from.
    pub(super) source: Source,
    /// Whether the owner's kind is watched, and its first list complete.
    pub(super) is_watched: bool,
}

/// Where the knowledge of an owner comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Source {
    /// A cache shows the owner, or earlier answers tell of its absence.
    Known,
    /// The API server was asked.
    Asked,
    /// The dependents were queued.
    Settled,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Step {
    /// Ask the API server.
    Look,
    /// Queue the dependents of the owner.
    QueueDependents,
}

/// The next step.
pub(super) fn plan(owner: Owner) -> Plan<Step> {
    match (owner.standing, owner.source) {
        (_, Source::Settled) => Plan::done(),
        (Standing::Unknown, _) => Plan::step(Step::Look),
        (Standing::Dangling, _) => Plan::step(Step::QueueDependents),
        (Standing::Invalid, _) => Plan::done(),
        (Standing::Unmapped(wait), _) => Plan::Done { requeue_after: Some(wait) },
        // From now on, changes of the cache tell what becomes of it.
        (Standing::Solid | Standing::Waiting, Source::Known) => Plan::done(),
        // If its creation and its deletion both were lost with a watch, the cache will never show it.
        (Standing::Solid | Standing::Waiting, Source::Asked) => {
            let wait = if owner.is_watched { UNSEEN } else { UNWATCHED };
            Plan::Done { requeue_after: Some(wait) }
        }
    }
}

impl Owner {
    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Standing>) {
        if let StepResult::Done(standing) = result {
            self.standing = standing;
            self.source = match step {
                Step::Look => Source::Asked,
                Step::QueueDependents => Source::Settled,
            };
        }
    }
}
