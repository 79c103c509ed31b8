//! The status of an autoscaler.

use serde::Serialize;
use steersman_api::condition::{Condition, ConditionStatus};
use steersman_api::{ArcStr, Time};
use steersman_kinds::condition::WorkloadCondition;
use steersman_kinds::horizontal_pod_autoscaler::{AutoscalerStatus, MetricStatus};

/// The condition that tells whether the target's number of replicas can be read and set.
pub(super) const ABLE_TO_SCALE: &str = "AbleToScale";
/// The condition that tells whether metrics decide on the number of replicas.
pub(super) const SCALING_ACTIVE: &str = "ScalingActive";
/// The condition that tells whether a limit keeps the number of replicas from what the metrics call for.
pub(super) const SCALING_LIMITED: &str = "ScalingLimited";
/// The condition that tells whether the autoscaler has removed all replicas.
pub(super) const SCALED_TO_ZERO: &str = "ScaledToZero";

/// The status of a HorizontalPodAutoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    /// Older versions set it. A status with numbers of replicas lacks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the autoscaler last changed the number of replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,
    /// The number of replicas before the sync.
    #[serde(skip_serializing_if = "is_zero")]
    pub current_replicas: i32,
    /// The number of replicas after the sync.
    pub desired_replicas: i32,
    /// The values of the metrics.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub current_metrics: Vec<MetricStatus>,
    /// The conditions, in the order in which they were first set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// What a condition says: its status, its reason and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Whether the condition holds.
    pub status: ConditionStatus,
    /// Why, in one word for programs.
    pub reason: ArcStr,
    /// Why, for people.
    pub message: ArcStr,
}

impl Verdict {
    /// A verdict with this reason and message.
    pub(super) fn new(status: ConditionStatus, (reason, message): (&str, &str)) -> Self {
        Self { status, reason: reason.into(), message: message.into() }
    }
}

impl Status {
    /// The status in the cache.
    pub(super) fn of(status: &AutoscalerStatus) -> Self {
        let condition = |condition: &WorkloadCondition| Condition {
            kind: condition.kind.as_arc().clone(),
            status: condition.status,
            last_transition_time: condition.last_transition_time,
            reason: condition.reason.as_arc().clone(),
            message: condition.message.clone(),
        };
        Self {
            observed_generation: status.observed_generation,
            last_scale_time: status.last_scale_time,
            current_replicas: status.current_replicas,
            desired_replicas: status.desired_replicas,
            current_metrics: status.current_metrics.clone(),
            conditions: status.conditions.iter().map(condition).collect(),
        }
    }

    /// Sets a condition. Its time of transition changes if its status does.
    pub(super) fn set(&mut self, kind: &'static str, verdict: Verdict, now: Time) {
        let Verdict { status, reason, message } = verdict;
        match self.conditions.iter_mut().find(|condition| condition.kind == kind) {
            Some(condition) => {
                if condition.status != status {
                    condition.last_transition_time = Some(now);
                }
                (condition.status, condition.reason, condition.message) = (status, reason, message);
            }
            None => self.conditions.push(Condition {
                kind: kind.into(),
                status,
                last_transition_time: Some(now),
                reason,
                message,
            }),
        }
    }

    /// Removes a condition.
    pub(super) fn unset(&mut self, kind: &str) {
        self.conditions.retain(|condition| condition.kind != kind);
    }

    /// Whether a condition is true.
    pub(super) fn holds(&self, kind: &str) -> bool {
        let mut of_kind = self.conditions.iter().filter(|condition| condition.kind == kind);
        of_kind.next().is_some_and(|condition| condition.status == ConditionStatus::True)
    }
}
