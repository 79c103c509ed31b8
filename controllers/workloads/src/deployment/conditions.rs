//! A Deployment's conditions.

use serde::Serialize;
use steersman_api::condition::{ConditionStatus, Entry};
use steersman_api::{ArcStr, Time};
use steersman_kinds::condition::WorkloadCondition;
use steersman_kinds::deployment::DeploymentCondition;

/// The type of the condition that tells whether the rollout makes progress.
pub(super) const PROGRESSING: &str = "Progressing";
/// The type of the condition that tells whether enough pods are available.
pub(super) const AVAILABLE: &str = "Available";
/// The type of the condition that tells of pods which could not be created or deleted.
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// A condition of a Deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    /// The type, such as `Progressing`.
    #[serde(rename = "type")]
    pub kind: ArcStr,
    /// Whether the condition holds.
    pub status: ConditionStatus,
    /// When the condition was last updated.
    pub last_update_time: Option<Time>,
    /// When `status` last changed.
    pub last_transition_time: Option<Time>,
    /// Why, in one word for programs.
    #[serde(skip_serializing_if = "ArcStr::is_empty")]
    pub reason: ArcStr,
    /// Why, for people.
    #[serde(skip_serializing_if = "ArcStr::is_empty")]
    pub message: ArcStr,
}

impl Condition {
    /// A condition that came about now.
    pub(super) fn new(
        kind: &str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<ArcStr>,
        now: Time,
    ) -> Self {
        let (last_update_time, last_transition_time) = (Some(now), Some(now));
        let message = message.into();
        Self {
            kind: kind.into(),
            status,
            last_update_time,
            last_transition_time,
            reason: reason.into(),
            message,
        }
    }

    pub(super) fn stored(condition: &DeploymentCondition) -> Self {
        Self {
            kind: condition.kind.as_arc().clone(),
            status: condition.status,
            last_update_time: condition.last_update_time,
            last_transition_time: condition.last_transition_time,
            reason: condition.reason.as_arc().clone(),
            message: condition.message.as_arc().clone(),
        }
    }

    /// A ReplicaSet's condition as one of its Deployment.
    pub(super) fn of_replica_set(condition: &WorkloadCondition) -> Self {
        Self {
            kind: condition.kind.as_arc().clone(),
            status: condition.status,
            last_update_time: condition.last_transition_time,
            last_transition_time: condition.last_transition_time,
            reason: condition.reason.as_arc().clone(),
            message: condition.message.clone(),
        }
    }
}

impl Entry for Condition {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn status(&self) -> &str {
        self.status.as_str()
    }

    fn keep_transition_time(&mut self, old: &Self) {
        self.last_transition_time = old.last_transition_time;
    }
}

/// The condition `Progressing`.
pub(super) fn progressing(conditions: &[Condition]) -> Option<&Condition> {
    steersman_api::condition::find(conditions, PROGRESSING)
}

/// Sets a condition, unless there is one of the same type, status and reason: that one keeps its message and its times.
/// A condition that changes moves to the end of the list. Upstream's `SetDeploymentCondition`.
pub(super) fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    if let Some(old) = steersman_api::condition::find(conditions, &condition.kind) {
        if old.status == condition.status && old.reason == condition.reason {
            return;
        }
        if old.status == condition.status {
            condition.last_transition_time = old.last_transition_time;
        }
    }
    remove(conditions, &condition.kind.clone());
    conditions.push(condition);
}

/// Removes the conditions of a type.
pub(super) fn remove(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.kind != kind);
}
