//! The spec of a job, checked and with defaults.

use std::fmt;
use std::time::Duration;

use super::failure_policy::{FailureAction, FailurePolicy};
use super::pods::Pod;
use super::success_policy::SuccessPolicy;
use steersman_kinds::job::JobSpec;

/// The fields of a job's spec that policy reads, with defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Maximum number of active pods.
    pub parallelism: usize,
    /// The successes that complete the job.
    pub completions: Completions,
    /// Number of failed pods that the job tolerates.
    pub backoff_limit: usize,
    /// How many failures each index tolerates. `None`: only the whole job has a limit.
    pub per_index: Option<PerIndex>,
    /// What the controller does about failed pods. `None`: it counts each of them.
    pub failure_policy: Option<FailurePolicy>,
    /// When the job succeeds before all of its indexes have.
    pub success_policy: Option<SuccessPolicy>,
    /// When the controller replaces a pod.
    pub replacement: Replacement,
    /// Whether the kubelet restarts failed containers. Such restarts count as failures.
    pub restarts: Restarts,
    /// Maximum time that the job may be active.
    pub active_deadline: Option<Duration>,
    /// Whether the job is suspended: then it must have no active pods.
    pub suspended: bool,
}

/// The successes that complete a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completions {
    /// One pod has succeeded, and the others have ended.
    Any,
    /// This number of pods has succeeded.
    Count(usize),
    /// A pod of each index below this number has succeeded.
    Indexes(usize),
}

/// What the kubelet does with a failed container: the pod template's `restartPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restarts {
    /// It does not restart the container, and the pod fails.
    Never,
    /// It restarts the container in the same pod.
    OnFailure,
}

/// The limits of a job whose indexes fail independently of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerIndex {
    /// Number of failed pods that each index tolerates.
    pub backoff_limit: u32,
    /// Number of failed indexes that the job tolerates. `None`: the job runs all indexes, however many fail.
    pub max_failed: Option<usize>,
}

/// When the controller replaces a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// As soon as the pod is being deleted, which counts as a failure.
    TerminatingOrFailed,
    /// Only once the pod has failed. A job with a pod failure policy always waits that long, since the policy can't judge a pod
    /// before. Upstream: `onlyReplaceFailedPods`.
    Failed,
}

/// Why the controller does not sync a job. Its text is the message of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The job's completion mode is newer than this program.
    UnknownCompletionMode,
}

impl Refusal {
    /// The event's reason.
    pub fn reason(self) -> &'static str {
        match self {
            Self::UnknownCompletionMode => "UnknownCompletionMode",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCompletionMode => f.write_str("Skipped Job sync because completion mode is unknown"),
        }
    }
}

impl Completions {
    /// Whether the job's pods have indexes.
    pub fn are_indexed(self) -> bool {
        matches!(self, Self::Indexes(_))
    }

    /// The completion mode: the value of the metrics' label `completion_mode`.
    pub fn mode(self) -> &'static str {
        if self.are_indexed() { "Indexed" } else { "NonIndexed" }
    }
}

/// No pods: for a job that the controller refuses to sync.
impl Default for Wanted {
    fn default() -> Self {
        Self {
            parallelism: 0,
            completions: Completions::Any,
            backoff_limit: 0,
            per_index: None,
            failure_policy: None,
            success_policy: None,
            replacement: Replacement::TerminatingOrFailed,
            restarts: Restarts::Never,
            active_deadline: None,
            suspended: false,
        }
    }
}

impl Wanted {
    /// What the pod failure policy says about a pod. `None`: nothing, or there is no policy.
    pub(super) fn action_on(&self, pod: &Pod) -> Option<FailureAction> {
        self.failure_policy.as_ref()?.matching(&pod.failure).map(|matched| matched.action)
    }

    /// Reads the spec. If a field lacks the API server's default, this sets it.
    ///
    /// # Errors
    /// If this program does not know the job's completion mode.
    pub fn of(spec: &JobSpec) -> Result<Self, Refusal> {
        let count = |number: Option<i32>, default| number.map_or(default, super::size);
        let completions = match (spec.completion_mode.as_deref(), spec.completions) {
            (Some("Indexed"), completions) => Completions::Indexes(count(completions, 1)),
            (None | Some("NonIndexed"), None) => Completions::Any,
            (None | Some("NonIndexed"), Some(completions)) => Completions::Count(super::size(completions)),
            (Some(_), _) => return Err(Refusal::UnknownCompletionMode),
        };
        let per_index =
            spec.backoff_limit_per_index.filter(|_| completions.are_indexed()).map(|limit| PerIndex {
                backoff_limit: u32::try_from(limit).unwrap_or(0),
                max_failed: spec.max_failed_indexes.map(super::size),
            });
        let failure_policy = spec.pod_failure_policy.as_ref().map(FailurePolicy::of);
        let waits = spec.pod_replacement_policy.as_ref().is_some_and(|policy| *policy == "Failed");
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        Ok(Self {
            parallelism: count(spec.parallelism, 1),
            completions,
            backoff_limit: count(
                spec.backoff_limit,
                if per_index.is_some() { super::size(i32::MAX) } else { 6 },
            ),
            per_index,
            replacement: if waits || failure_policy.is_some() {
                Replacement::Failed
            } else {
                Replacement::TerminatingOrFailed
            },
            failure_policy,
            success_policy: match completions {
                Completions::Indexes(count) => {
                    spec.success_policy.as_ref().map(|policy| SuccessPolicy::of(policy, count))
                }
                Completions::Any | Completions::Count(_) => None,
            },
            restarts: if spec.template.spec.restart_policy == "OnFailure" {
                Restarts::OnFailure
            } else {
                Restarts::Never
            },
            active_deadline: spec.active_deadline_seconds.map(seconds),
            suspended: spec.suspend,
        })
    }
}
