//! The spec of a job, checked and with defaults.

use std::fmt;
use std::time::Duration;

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

/// Why the controller does not sync a job. Its text is the message of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The job's completion mode is newer than this program.
    UnknownCompletionMode,
    /// The job has this policy, which this program does not support. Ignoring the policy would be worse than not syncing
    /// the job: the controller would count or replace pods that the policy exempts.
    Unsupported(&'static str),
}

impl Refusal {
    /// The event's reason.
    pub fn reason(self) -> &'static str {
        match self {
            Self::UnknownCompletionMode => "UnknownCompletionMode",
            Self::Unsupported(_) => "UnsupportedJobPolicy",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCompletionMode => f.write_str("Skipped Job sync because completion mode is unknown"),
            Self::Unsupported(policy) => {
                write!(f, "Skipped Job sync because this controller does not support {policy}")
            }
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
            restarts: Restarts::Never,
            active_deadline: None,
            suspended: false,
        }
    }
}

impl Wanted {
    /// Reads the spec. If a field lacks the API server's default, this sets it.
    ///
    /// # Errors
    /// If the spec asks for what this program does not support.
    pub fn of(spec: &JobSpec) -> Result<Self, Refusal> {
        for (is_there, policy) in [
            (spec.pod_failure_policy.is_some(), "podFailurePolicy"),
            (spec.success_policy.is_some(), "successPolicy"),
            (spec.backoff_limit_per_index.is_some(), "backoffLimitPerIndex"),
            // The other value, TerminatingOrFailed, describes what the controller always does.
            (
                spec.pod_replacement_policy.as_ref().is_some_and(|policy| *policy == "Failed"),
                "podReplacementPolicy Failed",
            ),
        ] {
            if is_there {
                return Err(Refusal::Unsupported(policy));
            }
        }
        let count = |number: Option<i32>, default| number.map_or(default, super::size);
        let completions = match (spec.completion_mode.as_deref(), spec.completions) {
            (Some("Indexed"), completions) => Completions::Indexes(count(completions, 1)),
            (None | Some("NonIndexed"), None) => Completions::Any,
            (None | Some("NonIndexed"), Some(completions)) => Completions::Count(super::size(completions)),
            (Some(_), _) => return Err(Refusal::UnknownCompletionMode),
        };
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        Ok(Self {
            parallelism: count(spec.parallelism, 1),
            completions,
            backoff_limit: count(spec.backoff_limit, 6),
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
