//! Whether a finished job has outlived its TTL.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_api::condition::ConditionStatus;
use steersman_api::{Meta, Time, Uid};
use steersman_controller::plan::Plan;
use steersman_kinds::job::{JobStatus, JobTtl};

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Tells the job from other jobs of that name.
    pub uid: Uid,
    /// When the job may be deleted. `None`: not at all, as it has not finished, has no TTL, or is being deleted already.
    pub expires: Option<Time>,
}

/// A finished job does not say when it finished.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to find the time when the Job finished")]
pub(super) struct NoFinishTime;

/// A job as the sync knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Observed {
    /// As the cache shows it. Its TTL may have changed since.
    Cached(Candidate),
    /// As the API server has it.
    Fresh(Candidate),
    /// Gone, or deleted by this sync.
    Gone,
}

/// An action of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Read the job from the API server.
    Read,
    /// Delete the job of this uid, which expired at this time, and its pods before it.
    Delete(Uid, Time),
}

impl Candidate {
    /// Reads the TTL of a job.
    ///
    /// # Errors
    /// The job has finished and does not say when.
    pub(super) fn of(meta: &Meta, ttl: &JobTtl, status: &JobStatus) -> Result<Self, NoFinishTime> {
        let finish = status.conditions.iter().find(|condition| {
            condition.status == ConditionStatus::True
                && (condition.kind == "Complete" || condition.kind == "Failed")
        });
        let expires = match (ttl.ttl_seconds_after_finished, finish) {
            (Some(seconds), Some(finish)) if !meta.is_deleting() => {
                let finished = finish.last_transition_time.ok_or(NoFinishTime)?;
                Some(Time::from_seconds(finished.seconds().saturating_add(seconds.into())))
            }
            _ => None,
        };
        Ok(Self { uid: meta.uid.clone(), expires })
    }
}

/// Deletes a job that has expired, after a look at its newest state; waits for the end of the TTL of another one.
pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan<Step> {
    let (Observed::Cached(job) | Observed::Fresh(job)) = observed else { return Plan::done() };
    let Some(expires) = job.expires else { return Plan::done() };
    let left = Timestamp::from(expires).duration_since(now);
    if left > SignedDuration::ZERO {
        return Plan::Done { requeue_after: Some(Duration::try_from(left).unwrap_or_default()) };
    }
    Plan::step(match observed {
        Observed::Fresh(_) => Step::Delete(job.uid.clone(), expires),
        _ => Step::Read,
    })
}
