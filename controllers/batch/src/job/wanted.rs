//! What a job's spec asks for.

use std::fmt;
use std::time::Duration;

use steersman_kinds::job::JobSpec;

/// A job's spec, as policy reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// How many pods may run at once.
    pub parallelism: usize,
    /// How many must succeed; `None`: any one, and then those that run.
    pub completions: Completions,
    /// How many pods may fail.
    pub backoff_limit: usize,
    /// Restarts of containers count as failures.
    pub restarts: Restarts,
    /// For how long it may be active.
    pub active_deadline: Option<Duration>,
    /// It shall have no pods.
    pub suspended: bool,
}

/// When a job is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completions {
    /// Once any pod has succeeded, and the others have ended.
    Any,
    /// Once so many pods have succeeded.
    Count(usize),
    /// Once one pod of each index below this one has succeeded.
    Indexes(usize),
}

/// What becomes of containers that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restarts {
    /// Their pod fails.
    Never,
    /// They begin anew, in the same pod.
    OnFailure,
}

/// Why a job is left as it is, with a word about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Newer than this program.
    UnknownCompletionMode,
    /// It has a policy that this program does not know. Half of it would be worse than nothing: pods would be counted, or
    /// replaced, that the policy says should not be.
    Unsupported(&'static str),
}

impl Refusal {
    /// The reason of the event.
    pub fn reason(self) -> &'static str {
        match self {
            Self::UnknownCompletionMode => "UnknownCompletionMode",
            Self::Unsupported(_) => "UnsupportedJobPolicy",
        }
    }
}

/// The event's message.
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
    /// Whether pods have indexes.
    pub fn are_indexed(self) -> bool {
        matches!(self, Self::Indexes(_))
    }

    /// Upstream's name for the mode.
    pub fn mode(self) -> &'static str {
        if self.are_indexed() { "Indexed" } else { "NonIndexed" }
    }
}

/// Nothing: of a job that is refused.
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
    /// What the spec asks for. Where the API server's defaults are absent, they are put in.
    ///
    /// # Errors
    /// It asks for what this program can't do.
    pub fn of(spec: &JobSpec) -> Result<Self, Refusal> {
        for (is_there, policy) in [
            (spec.pod_failure_policy.is_some(), "podFailurePolicy"),
            (spec.success_policy.is_some(), "successPolicy"),
            (spec.backoff_limit_per_index.is_some(), "backoffLimitPerIndex"),
            // The other value, TerminatingOrFailed, is what is done in any case.
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
