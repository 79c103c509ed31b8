//! Whether a rollout makes progress, and until when it must.

use std::time::Duration;

use steersman_api::Time;
use steersman_api::condition::ConditionStatus;

use super::conditions::{self, Condition, PROGRESSING, REPLICA_FAILURE};
use super::observed::Observed;
use super::owner::Deployment;
use super::status::Status;

/// `begun` with what the ReplicaSets report, and the conditions `Progressing` and `ReplicaFailure`. Upstream's
/// `syncRolloutStatus`.
pub(super) fn status(observed: &Observed, begun: &Status, now: Time) -> Status {
    let deployment = &observed.deployment;
    let mut status = Status::counted(observed, begun, now);
    match deployment.progress_deadline {
        None => conditions::remove(&mut status.conditions, PROGRESSING),
        Some(deadline) => estimate(observed, begun, &mut status, deadline, now),
    }
    match failure(observed) {
        Some(failure) => conditions::set(&mut status.conditions, failure),
        None => conditions::remove(&mut status.conditions, REPLICA_FAILURE),
    }
    status
}

fn estimate(observed: &Observed, begun: &Status, status: &mut Status, deadline: Duration, now: Time) {
    let current = conditions::progressing(&begun.conditions);
    let was_complete = current.is_some_and(|current| current.reason == "NewReplicaSetAvailable");
    // The last rollout has ended, so that what changes now is no progress of one.
    if was_complete && status.replicas == status.updated_replicas {
        return;
    }
    let subject = observed.new_set().map_or_else(
        || format!("Deployment \"{}\"", observed.deployment.meta.key.name),
        |new| format!("ReplicaSet \"{}\"", new.name()),
    );
    let condition = |holds, reason, message| {
        Condition::new(PROGRESSING, holds, reason, format!("{subject} {message}"), now)
    };
    if status.is_complete(&observed.deployment) {
        let complete =
            condition(ConditionStatus::True, "NewReplicaSetAvailable", "has successfully progressed.");
        conditions::set(&mut status.conditions, complete);
    } else if made_progress(begun, status) {
        let mut progress = condition(ConditionStatus::True, "ReplicaSetUpdated", "is progressing.");
        // The time of the last update moves with each progress, also under the same reason.
        if let Some(current) = current.filter(|current| current.status == ConditionStatus::True) {
            progress.last_transition_time = current.last_transition_time;
        }
        conditions::remove(&mut status.conditions, PROGRESSING);
        conditions::set(&mut status.conditions, progress);
    } else if timed_out(status, deadline, now) {
        let timeout =
            condition(ConditionStatus::False, "ProgressDeadlineExceeded", "has timed out progressing.");
        conditions::set(&mut status.conditions, timeout);
    }
}

/// Whether there are more updated, ready or available pods than before, or fewer old ones. Upstream's
/// `DeploymentProgressing`.
pub(super) fn made_progress(before: &Status, now: &Status) -> bool {
    let old = |status: &Status| status.replicas - status.updated_replicas;
    now.updated_replicas > before.updated_replicas
        || old(now) < old(before)
        || now.ready_replicas > before.ready_replicas
        || now.available_replicas > before.available_replicas
}

/// Whether the last progress is longer ago than the deadline. Upstream's `DeploymentTimedOut`.
fn timed_out(status: &Status, deadline: Duration, now: Time) -> bool {
    let Some(condition) = conditions::progressing(&status.conditions) else { return false };
    match &*condition.reason {
        "NewReplicaSetAvailable" => false,
        "ProgressDeadlineExceeded" => true,
        _ => condition.last_update_time.is_none_or(|from| from + deadline < now),
    }
}

/// Why pods could not be created or deleted: what the new ReplicaSet says, else the oldest of the others that says so.
fn failure(observed: &Observed) -> Option<Condition> {
    let sets = observed.new_set().into_iter().chain(observed.old_sets());
    sets.filter_map(|set| set.status.failure.clone()).next()
}

/// The time until the next look at a rollout that makes no progress: a second after its deadline. `None` if it has no
/// deadline, is complete or has failed, or if the deadline has passed without effect. Upstream's `requeueStuckDeployment`,
/// except that this comes again without end in the last case.
pub(super) fn requeue_after(deployment: &Deployment, now: Time) -> Option<Duration> {
    let status = &deployment.status;
    let deadline = deployment.progress_deadline?;
    let condition = conditions::progressing(&status.conditions)?;
    if status.is_complete(deployment) || condition.reason == "ProgressDeadlineExceeded" {
        return None;
    }
    let until = condition.last_update_time? + deadline;
    (until >= now).then(|| until.since(now) + Duration::from_secs(1))
}
