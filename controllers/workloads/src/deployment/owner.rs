//! A Deployment, as policy sees it.

use std::time::Duration;

use steersman_api::{ArcStr, Meta};
use steersman_controller::controller::SyncError;
use steersman_informer::wire::{Group, IntOrString, Object, Opaque};
use steersman_kinds::annotation::Annotations;
use steersman_kinds::deployment::{
    Deployment as CachedDeployment, DeploymentAnnotations, DeploymentSpec, DeploymentStatus,
    DeploymentTemplate,
};
use steersman_kinds::selector::SelectorSpec;

use super::status::Status;

/// A Deployment.
#[derive(Clone, Debug)]
pub(super) struct Deployment {
    /// The metadata, with the version that `status` is of.
    pub meta: Meta,
    /// The annotations.
    pub annotations: Annotations,
    /// The number of pods that the Deployment wants.
    pub replicas: i32,
    /// How new pods replace old ones.
    pub strategy: Strategy,
    /// How long a pod must be ready until it counts as available, in seconds. The ReplicaSets' controller goes by it.
    pub min_ready_seconds: i32,
    /// The number of old ReplicaSets to keep. `None`: all of them.
    pub history_limit: Option<i32>,
    /// How long a rollout may make no progress until it counts as failed. `None`: for ever.
    pub progress_deadline: Option<Duration>,
    /// Whether the rollout is paused.
    pub paused: bool,
    /// Selects ReplicaSets and pods.
    pub selector: SelectorSpec,
    /// The pod template.
    pub template: Opaque,
    /// The stored status.
    pub status: Status,
}

/// How new pods replace old ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// All old pods end before the first new one is created.
    Recreate,
    /// New pods replace old ones a few at a time.
    RollingUpdate {
        /// How many pods there may be beyond `replicas`.
        max_surge: IntOrString,
        /// How many pods may be unavailable.
        max_unavailable: IntOrString,
    },
}

impl Deployment {
    /// Reads a Deployment of a cache or an answer, of which the groups of [`super::SyncedDeployment`] are kept.
    ///
    /// # Errors
    /// The Deployment has a strategy that this program does not know.
    pub(super) fn of(object: &CachedDeployment) -> Result<Self, SyncError> {
        fn group<G: Group<Kind = CachedDeployment>>(object: &CachedDeployment) -> &G {
            G::of(object).expect("the groups that the controller reads must be kept")
        }
        let spec = group::<DeploymentSpec>(object);
        let bounds = &spec.strategy.rolling_update;
        let strategy = match &*spec.strategy.kind {
            "Recreate" => Strategy::Recreate,
            "RollingUpdate" => Strategy::RollingUpdate {
                max_surge: bounds.max_surge.clone(),
                max_unavailable: bounds.max_unavailable.clone(),
            },
            other => return Err(SyncError::Failed(format!("unexpected deployment strategy type: {other}"))),
        };
        let limited = |limit: &i32| *limit != i32::MAX;
        let seconds = |seconds: i32| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        Ok(Self {
            meta: object.meta().clone(),
            annotations: group::<DeploymentAnnotations>(object).annotations.clone(),
            replicas: spec.replicas.unwrap_or(1),
            strategy,
            min_ready_seconds: spec.min_ready_seconds,
            history_limit: spec.revision_history_limit.filter(limited),
            progress_deadline: spec.progress_deadline_seconds.filter(limited).map(seconds),
            paused: spec.paused,
            selector: spec.selector.clone().unwrap_or_default(),
            template: group::<DeploymentTemplate>(object).template.clone(),
            status: Status::stored(group::<DeploymentStatus>(object)),
        })
    }

    /// Whether the selector has no requirement, so that it selects all pods. The API server refuses such Deployments.
    pub(super) fn selects_all(&self) -> bool {
        self.selector.match_labels.is_empty() && self.selector.match_expressions.is_empty()
    }

    /// The value of an annotation. Empty if there is no such annotation.
    pub(super) fn annotation(&self, key: &str) -> ArcStr {
        self.annotations.get(key).cloned().unwrap_or_default()
    }

    /// Whether new pods replace old ones a few at a time.
    pub(super) fn is_rolling(&self) -> bool {
        matches!(self.strategy, Strategy::RollingUpdate { .. })
    }

    /// How many pods there may be beyond `replicas`. Upstream's `MaxSurge`.
    pub(super) fn max_surge(&self) -> i32 {
        match &self.strategy {
            Strategy::RollingUpdate { max_surge, .. } => scaled(max_surge, self.replicas, f64::ceil),
            Strategy::Recreate => 0,
        }
    }

    /// How many of `replicas` may be unavailable in a rolling update. Upstream's `MaxUnavailable`.
    ///
    /// Surge is rounded up and this is rounded down. If both come to zero, one pod may be unavailable, so that the rollout
    /// proceeds.
    pub(super) fn max_unavailable(&self) -> i32 {
        match &self.strategy {
            Strategy::RollingUpdate { max_unavailable, .. } if self.replicas != 0 => {
                let resolved = match scaled(max_unavailable, self.replicas, f64::floor) {
                    0 if self.max_surge() == 0 => 1,
                    resolved => resolved,
                };
                resolved.min(self.replicas)
            }
            _ => 0,
        }
    }

    /// The number of pods that must stay available in a rolling update.
    pub(super) fn min_available(&self) -> i32 {
        self.replicas - self.max_unavailable()
    }

    /// The greatest number of pods that the Deployment may have, for the annotation `max-replicas`.
    pub(super) fn max_replicas(&self) -> i32 {
        self.replicas.saturating_add(self.max_surge())
    }
}

/// A number, or a percentage of `total`. Upstream's `GetScaledValueFromIntOrPercent`, except that another text, which the
/// API server refuses, is zero.
#[allow(clippy::cast_possible_truncation, reason = "a number beyond 32 bits becomes the greatest one")]
fn scaled(value: &IntOrString, total: i32, round: fn(f64) -> f64) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|percent| percent.parse::<u32>().ok());
            percent.map_or(0, |percent| round(f64::from(percent) * f64::from(total) / 100.0) as i32)
        }
    }
}
