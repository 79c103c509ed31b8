//! What a sync knows of an autoscaler.

use std::sync::Arc;
use std::time::Duration;

use steersman_api::selector::InvalidSelector;
use steersman_api::{ArcStr, LabelSelector, Meta, ObjectKey};
use steersman_client::events::EventType;
use steersman_controller::controller::StepResult;
use steersman_kinds::horizontal_pod_autoscaler::AutoscalerSpec;

use super::decision::Decision;
use super::history::History;
use super::metrics_api::Reading;
use super::plan::{Outcome, Step};
use super::pods::Pod;
use super::status::Status;

/// An autoscaler and its target as they were found, and what the sync has done since.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The autoscaler.
    pub autoscaler: Autoscaler,
    /// What the controller remembers of it.
    pub history: History,
    /// The target, once it has been read; or why it can't be.
    pub target: Option<Result<Target, NoTarget>>,
    /// The metrics that have been read, in the order of the spec.
    pub readings: Vec<Option<Fetched>>,
    /// What was decided, once the metrics have been read.
    pub decision: Option<Decision>,
    /// Whether the number of replicas was set, once that has been tried.
    pub rescaled: Option<Result<(), String>>,
    /// Whether the status is written.
    pub reported: bool,
}

/// An autoscaler.
#[derive(Clone, Debug)]
pub(super) struct Autoscaler {
    /// Its metadata.
    pub meta: Meta,
    /// Its spec.
    pub spec: AutoscalerSpec,
    /// Its status.
    pub status: Status,
}

/// The object whose replicas the autoscaler sets.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The wanted number of replicas.
    pub wanted: i32,
    /// The current number of replicas.
    pub current: i32,
    /// The selector as the scale has it.
    pub selector: ArcStr,
    /// The selector; `None` if it is empty, and if the metrics don't decide.
    pub pods_selector: Option<Result<LabelSelector, InvalidSelector>>,
    /// The pods that it selects. Empty if the metrics don't decide.
    pub pods: Vec<Pod>,
    /// The autoscalers that select any of these pods. Empty if the metrics don't decide.
    pub autoscalers: Vec<ObjectKey>,
}

/// Why the target can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoTarget {
    /// Why, for people.
    pub why: String,
    /// What the error of the sync says before `why`.
    pub doing: String,
    /// Whether the autoscaler's spec is at fault.
    pub is_spec: bool,
}

/// A metric that was read, or why it could not be.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    /// The value.
    pub value: Result<Arc<Reading>, String>,
    /// How long it took.
    pub took: Duration,
}

/// An event about the autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    /// The type.
    pub kind: EventType,
    /// The reason.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl Notice {
    /// A warning.
    pub(super) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind: EventType::Warning, reason, message: message.into() }
    }
}

impl Autoscaler {
    /// The least number of replicas.
    pub(super) fn min(&self) -> i32 {
        self.spec.min_replicas.unwrap_or(1)
    }

    /// Whether one of the metrics may have a value without pods.
    pub(super) fn has_metrics_without_pods(&self) -> bool {
        self.spec.metrics.iter().any(|metric| matches!(&*metric.kind, "Object" | "External"))
    }

    /// The target, for errors: `Deployment/default/web`.
    pub(super) fn reference(&self) -> String {
        let target = &self.spec.target;
        format!("{}/{}/{}", target.kind, self.meta.key.namespace, target.name)
    }
}

impl Observed {
    /// A sync that has read nothing but the cache.
    pub(super) fn new(autoscaler: Autoscaler, history: History) -> Self {
        let readings = vec![None; autoscaler.spec.metrics.len()];
        Self { autoscaler, history, target: None, readings, decision: None, rescaled: None, reported: false }
    }

    /// Adds the result of a step.
    pub(super) fn absorb(&mut self, step: Step, result: StepResult<Outcome>) {
        let StepResult::Done(outcome) = result else { return };
        match (step, outcome) {
            (Step::ReadTarget, Outcome::Target(target)) => self.target = Some(*target),
            (Step::ReadMetric(at), Outcome::Metric(fetched)) => self.readings[at] = Some(fetched),
            (Step::Decide(decision), _) => self.decision = Some(*decision),
            (Step::Rescale(_), Outcome::Rescaled(result)) => self.rescaled = Some(result),
            (Step::Report(_), _) => self.reported = true,
            (step, outcome) => debug_assert!(false, "{outcome:?} must not follow from {step:?}"),
        }
    }
}
