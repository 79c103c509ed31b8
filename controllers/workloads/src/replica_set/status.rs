//! The status of an owner.

use std::time::Duration;

use serde::Serialize;
use steersman_api::condition::{self, Condition, ConditionStatus};
use steersman_api::meta::{LabelMap, Labels};
use steersman_api::{ArcStr, Time};
use steersman_kinds::condition::WorkloadCondition;

use super::observed::Observed;
use super::pods::Pod;

/// The status of a ReplicaSet or a ReplicationController.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    /// The number of active pods.
    pub replicas: i32,
    /// The number of active pods that have all labels of the template.
    #[serde(skip_serializing_if = "is_zero")]
    pub fully_labeled_replicas: i32,
    /// The number of active pods that are ready.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// The number of active pods that have been ready for `minReadySeconds`.
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    /// The number of pods that are being deleted and have not ended. `None` for ReplicationControllers, and where
    /// the gate is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The generation that the status describes.
    #[serde(skip_serializing_if = "is_unset")]
    pub observed_generation: i64,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_unset(generation: &i64) -> bool {
    *generation == 0
}

/// The condition that tells of pods which could not be created or deleted.
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Why the pods of an owner could not be brought to the wanted number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// `FailedCreate` or `FailedDelete`.
    pub reason: &'static str,
    /// The first error.
    pub message: String,
}

impl Status {
    /// The conditions of a cached object.
    pub(super) fn conditions_of(conditions: &[WorkloadCondition]) -> Vec<Condition> {
        let condition = |condition: &WorkloadCondition| Condition {
            kind: condition.kind.as_arc().clone(),
            status: condition.status,
            last_transition_time: condition.last_transition_time,
            reason: condition.reason.as_arc().clone(),
            message: condition.message.clone(),
        };
        conditions.iter().map(condition).collect()
    }

    /// The status of an owner with these pods, as upstream's `calculateStatus`. Equal to the stored status if nothing must be
    /// written.
    pub(super) fn of(observed: &Observed, now: Time) -> Self {
        let owner = &observed.owner;
        let active = || observed.owned().filter(|pod| pod.is_active());
        let count = |wanted: &dyn Fn(&Pod) -> bool| number(active().filter(|pod| wanted(pod)).count());
        let terminating = observed.owned().filter(|pod| pod.is_terminating()).count();
        Self {
            replicas: number(active().count()),
            fully_labeled_replicas: count(&|pod| has_all(&pod.labels, &owner.template_labels)),
            ready_replicas: count(&|pod| pod.ready.is_some()),
            available_replicas: count(&|pod| pod.available_in(owner.min_ready, now) == Some(Duration::ZERO)),
            terminating_replicas: observed.features.terminating_replicas.then(|| number(terminating)),
            observed_generation: owner.meta.generation,
            conditions: conditions(&owner.status.conditions, observed.failure.as_ref(), now),
        }
    }
}

/// The condition appears with the first failure, stays as it is while syncs fail, and goes with the first that does not.
fn conditions(stored: &[Condition], failure: Option<&Failure>, now: Time) -> Vec<Condition> {
    let mut conditions = stored.to_vec();
    let is_there = condition::find(&conditions, REPLICA_FAILURE).is_some();
    match failure {
        Some(failure) if !is_there => conditions.push(Condition {
            kind: REPLICA_FAILURE.into(),
            status: ConditionStatus::True,
            last_transition_time: Some(now),
            reason: ArcStr::from(failure.reason),
            message: ArcStr::from(failure.message.as_str()),
        }),
        Some(_) => {}
        None => _ = condition::remove(&mut conditions, REPLICA_FAILURE),
    }
    conditions
}

fn has_all(labels: &Labels, wanted: &LabelMap) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
