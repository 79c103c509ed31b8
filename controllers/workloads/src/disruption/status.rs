//! The status of a budget.

use std::collections::BTreeMap;

use serde::Serialize;
use steersman_api::condition::{self, ConditionStatus, Entry};
use steersman_api::{ArcStr, Time};
use steersman_kinds::condition::MetaCondition;
use steersman_kinds::pod_disruption_budget::PodDisruptionBudgetStatus;

/// The status of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    /// The generation that the status describes.
    #[serde(skip_serializing_if = "is_unset")]
    pub observed_generation: i64,
    /// The pods that the API server has agreed to evict, by name, with the time of that.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub disrupted_pods: BTreeMap<ArcStr, Time>,
    /// The number of pods that may be evicted now.
    pub disruptions_allowed: i32,
    /// The number of healthy pods.
    pub current_healthy: i32,
    /// The number of pods that must be healthy.
    pub desired_healthy: i32,
    /// The number of pods that the pods' owners ask for.
    pub expected_pods: i32,
    /// The conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A `metav1.Condition`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    /// The type.
    #[serde(rename = "type")]
    pub kind: ArcStr,
    /// Whether the condition holds.
    pub status: ConditionStatus,
    /// The generation that the condition describes.
    #[serde(skip_serializing_if = "is_unset")]
    pub observed_generation: i64,
    /// When `status` last changed.
    pub last_transition_time: Option<Time>,
    /// Why the status is what it is, in one word.
    pub reason: ArcStr,
    /// The same for people.
    pub message: ArcStr,
}

/// The condition that tells whether pods may be evicted.
pub(super) const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_unset(generation: &i64) -> bool {
    *generation == 0
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

impl From<&MetaCondition> for Condition {
    fn from(cached: &MetaCondition) -> Self {
        Self {
            kind: cached.kind.as_arc().clone(),
            status: cached.status,
            observed_generation: cached.observed_generation,
            last_transition_time: cached.last_transition_time,
            reason: cached.reason.as_arc().clone(),
            message: cached.message.clone(),
        }
    }
}

impl Status {
    /// The status of a cached budget.
    pub(super) fn of_cached(status: &PodDisruptionBudgetStatus) -> Self {
        Self {
            observed_generation: status.observed_generation,
            disrupted_pods: status.disrupted_pods.0.clone(),
            disruptions_allowed: status.disruptions_allowed,
            current_healthy: status.current_healthy,
            desired_healthy: status.desired_healthy,
            expected_pods: status.expected_pods,
            conditions: status.conditions.iter().map(Condition::from).collect(),
        }
    }

    /// This status with the condition that follows from the number of allowed disruptions. `stored` has the other
    /// conditions. `None` if nothing has to be written: the numbers are the stored ones, and the stored condition says what
    /// it must. As upstream's `updatePdbStatus`, which leaves the condition's message and generation alone.
    pub(super) fn over(mut self, stored: &Self, now: Time) -> Option<Self> {
        let (status, reason) = match self.disruptions_allowed {
            1.. => (ConditionStatus::True, "SufficientPods"),
            _ => (ConditionStatus::False, "InsufficientPods"),
        };
        let says_so = |condition: &Condition| condition.status == status && condition.reason == reason;
        self.conditions.clone_from(&stored.conditions);
        if self == *stored && condition::find(&stored.conditions, DISRUPTION_ALLOWED).is_some_and(says_so) {
            return None;
        }
        self.set_condition(status, reason, "", now);
        Some(self)
    }

    /// The stored status with no disruptions allowed, because the sync failed with this message; the other numbers stay.
    /// `None` if the stored status says so already. Upstream's `failSafe`.
    pub(super) fn failed_over(stored: &Self, message: &str, now: Time) -> Option<Self> {
        let mut failed = Self { disruptions_allowed: 0, ..stored.clone() };
        failed.set_condition(ConditionStatus::False, "SyncFailed", message, now);
        (failed != *stored).then_some(failed)
    }

    fn set_condition(&mut self, status: ConditionStatus, reason: &str, message: &str, now: Time) {
        let condition = Condition {
            kind: DISRUPTION_ALLOWED.into(),
            status,
            observed_generation: self.observed_generation,
            last_transition_time: Some(now),
            reason: reason.into(),
            message: message.into(),
        };
        condition::set(&mut self.conditions, condition);
    }
}
