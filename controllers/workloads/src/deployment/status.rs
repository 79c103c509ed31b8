//! The status of a Deployment.

use serde::Serialize;
use steersman_api::Time;
use steersman_api::condition::ConditionStatus;
use steersman_kinds::deployment::DeploymentStatus;

use super::conditions::{self, AVAILABLE, Condition, PROGRESSING};
use super::observed::{Observed, to_pods};
use super::owner::Deployment;

/// The status of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    /// The generation that the status describes.
    #[serde(skip_serializing_if = "is_unset")]
    pub observed_generation: i64,
    /// The number of active pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub replicas: i32,
    /// The number of active pods of the new ReplicaSet.
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_replicas: i32,
    /// The number of ready pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// The number of available pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    /// The number of pods that the ReplicaSets want beyond the available ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub unavailable_replicas: i32,
    /// The number of pods that are being deleted. `None` if a ReplicaSet does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The number of times that the name of a new ReplicaSet was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_unset(generation: &i64) -> bool {
    *generation == 0
}

impl Status {
    /// The status of a cached Deployment.
    pub(super) fn stored(status: &DeploymentStatus) -> Self {
        Self {
            observed_generation: status.observed_generation,
            replicas: status.replicas,
            updated_replicas: status.updated_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            unavailable_replicas: status.unavailable_replicas,
            terminating_replicas: status.terminating_replicas,
            conditions: status.conditions.iter().map(Condition::stored).collect(),
            collision_count: status.collision_count,
        }
    }

    /// The stored status with the conditions that follow from how the sync begins: that the Deployment was paused or
    /// resumed, and that its new ReplicaSet was found, was created, or could not be created. All other changes build on it.
    pub(super) fn begun(observed: &Observed, now: Time) -> Self {
        let deployment = &observed.deployment;
        let mut status = deployment.status.clone();
        if deployment.progress_deadline.is_none() {
            return status;
        }
        let mut progress = |status_of_it, reason: &str, message: String| {
            let condition = Condition::new(PROGRESSING, status_of_it, reason, message, now);
            conditions::set(&mut status.conditions, condition);
        };
        if !deployment.meta.is_deleting() {
            let reason = |deployment: &Deployment| {
                let condition = conditions::progressing(&deployment.status.conditions);
                condition.map(|condition| condition.reason.clone()).unwrap_or_default()
            };
            let was_paused = match &*reason(deployment) {
                // A rollout that has failed stays so, paused or not.
                "ProgressDeadlineExceeded" => deployment.paused,
                reason => reason == "DeploymentPaused",
            };
            match (was_paused, deployment.paused) {
                (false, true) => {
                    progress(ConditionStatus::Unknown, "DeploymentPaused", "Deployment is paused".to_owned());
                }
                (true, false) => {
                    progress(
                        ConditionStatus::Unknown,
                        "DeploymentResumed",
                        "Deployment is resumed".to_owned(),
                    );
                }
                _ => {}
            }
        }
        if let Some(name) = &observed.done.created {
            let message = format!("Created new replica set \"{name}\"");
            progress(ConditionStatus::True, "NewReplicaSetCreated", message);
        }
        if let Some(message) = &observed.done.create_failure {
            progress(ConditionStatus::False, "ReplicaSetCreateError", message.clone());
        }
        if let Some(new) = observed.new_set()
            && conditions::progressing(&status.conditions).is_none()
        {
            let message = format!("Found new replica set \"{}\"", new.name());
            let condition =
                Condition::new(PROGRESSING, ConditionStatus::True, "FoundNewReplicaSet", message, now);
            conditions::set(&mut status.conditions, condition);
        }
        status
    }

    /// `begun` with the numbers of pods that the ReplicaSets report, and the condition `Available`. Upstream's
    /// `calculateStatus`.
    pub(super) fn counted(observed: &Observed, begun: &Self, now: Time) -> Self {
        let deployment = &observed.deployment;
        let sum = |count| to_pods(observed.total(count));
        let available = sum(|set| set.status.available);
        let mut conditions = begun.conditions.clone();
        let is_available = available >= deployment.min_available();
        let (status, reason, message) = if is_available {
            (ConditionStatus::True, "MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            let message = "Deployment does not have minimum availability.";
            (ConditionStatus::False, "MinimumReplicasUnavailable", message)
        };
        conditions::set(&mut conditions, Condition::new(AVAILABLE, status, reason, message, now));
        Self {
            observed_generation: deployment.meta.generation,
            replicas: sum(|set| set.status.replicas),
            updated_replicas: observed.new_set().map_or(0, |new| new.status.replicas),
            ready_replicas: sum(|set| set.status.ready),
            available_replicas: available,
            unavailable_replicas: (sum(|set| set.replicas) - available).max(0),
            terminating_replicas: observed.counts_terminating.then(|| terminating(observed)).flatten(),
            conditions,
            collision_count: begun.collision_count,
        }
    }

    /// Whether all wanted pods are updated and available, and no old ones run. Upstream's `DeploymentComplete`.
    pub(super) fn is_complete(&self, deployment: &Deployment) -> bool {
        [self.updated_replicas, self.replicas, self.available_replicas] == [deployment.replicas; 3]
            && self.observed_generation >= deployment.meta.generation
    }
}

/// The number of pods that are being deleted. `None` if the controller of ReplicaSets has synced one of them and does not
/// tell that number.
fn terminating(observed: &Observed) -> Option<i32> {
    observed.owned().try_fold(0_i32, |sum, set| match set.status.terminating {
        Some(count) => Some(sum.saturating_add(count)),
        None if set.status.observed_generation == 0 => Some(sum),
        None => None,
    })
}
