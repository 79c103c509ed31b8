//! A job's `podFailurePolicy`: what the controller does about a failed pod.

use std::fmt;

use steersman_api::ArcStr;
use steersman_api::condition::ConditionStatus;
use steersman_kinds::job::{OnExitCodes, PodFailurePolicy, PodFailurePolicyRule};
use steersman_kinds::pod_failure::{ExitCode, PodFailure};

/// The rules of a policy. The first one that matches a pod decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailurePolicy(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// `None`: the action is newer than this program. The rule then matches no pod.
    action: Option<FailureAction>,
    requirement: Requirement,
}

/// What the controller does about a failed pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureAction {
    /// The whole job fails.
    FailJob,
    /// The pod's index fails.
    FailIndex,
    /// The pod does not count, and is replaced.
    Ignore,
    /// The pod counts as it would without a policy.
    Count,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    ExitCodes {
        /// The only container that matters. `None`: any container matters.
        container: Option<ArcStr>,
        operator: Operator,
        values: Vec<i32>,
    },
    /// One of these conditions.
    Conditions(Vec<(ArcStr, ConditionStatus)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    /// Newer than this program.
    Unknown,
}

/// The rule that decides about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Matched<'a> {
    pub(super) action: FailureAction,
    /// The rule's place in the policy.
    rule: usize,
    cause: Cause<'a>,
}

/// What the rule has matched.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause<'a> {
    Container(&'a ExitCode),
    Condition(&'a str),
}

impl FailureAction {
    /// The value in the API, and of the metrics' label `action`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::FailJob => "FailJob",
            Self::FailIndex => "FailIndex",
            Self::Ignore => "Ignore",
            Self::Count => "Count",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        let all = [Self::FailJob, Self::FailIndex, Self::Ignore, Self::Count];
        all.into_iter().find(|action| action.name() == name)
    }
}

impl FailurePolicy {
    /// Reads the policy of a job.
    pub(super) fn of(policy: &PodFailurePolicy) -> Self {
        Self(policy.rules.iter().map(Rule::of).collect())
    }

    /// The rule that decides about a pod. `None`: no rule matches, so that the pod counts as it would without a policy.
    pub(super) fn matching<'a>(&self, pod: &'a PodFailure) -> Option<Matched<'a>> {
        self.0.iter().enumerate().find_map(|(at, rule)| {
            let (action, cause) = (rule.action?, rule.requirement.cause(pod)?);
            Some(Matched { action, rule: at, cause })
        })
    }
}

impl Rule {
    fn of(rule: &PodFailurePolicyRule) -> Self {
        let requirement = match &rule.on_exit_codes {
            Some(OnExitCodes { container_name, operator, values }) => Requirement::ExitCodes {
                container: container_name.clone(),
                operator: match &**operator {
                    "In" => Operator::In,
                    "NotIn" => Operator::NotIn,
                    _ => Operator::Unknown,
                },
                values: values.clone(),
            },
            None => Requirement::Conditions(
                rule.on_pod_conditions.iter().map(|pattern| (pattern.kind.clone(), pattern.status)).collect(),
            ),
        };
        Self { action: FailureAction::parse(&rule.action), requirement }
    }
}

impl Requirement {
    /// The first container or condition that matches.
    fn cause<'a>(&self, pod: &'a PodFailure) -> Option<Cause<'a>> {
        match self {
            Self::ExitCodes { container, operator, values } => {
                let matches = |exit: &&ExitCode| {
                    let listed = values.contains(&exit.code);
                    container.as_ref().is_none_or(|name| **name == *exit.container)
                        && match operator {
                            Operator::In => listed,
                            Operator::NotIn => !listed,
                            Operator::Unknown => false,
                        }
                };
                pod.exit_codes().find(matches).map(Cause::Container)
            }
            Self::Conditions(patterns) => {
                let matches = |(kind, status): &(&str, ConditionStatus)| {
                    patterns.iter().any(|(wanted, of)| wanted == kind && of == status)
                };
                pod.conditions().find(matches).map(|(kind, _)| Cause::Condition(kind))
            }
        }
    }
}

/// A pod, and the rule that decides about it, in the words of the job's condition `Failed`.
pub(super) struct Explained<'a> {
    pub(super) matched: &'a Matched<'a>,
    pub(super) namespace: &'a str,
    pub(super) pod: &'a str,
}

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { matched: Matched { action, rule, cause }, namespace, pod } = self;
        match cause {
            Cause::Container(ExitCode { container, code }) => {
                write!(f, "Container {container} for pod {namespace}/{pod} failed with exit code {code}")?;
            }
            Cause::Condition(kind) => write!(f, "Pod {namespace}/{pod} has condition {kind}")?,
        }
        write!(f, " matching {} rule at index {rule}", action.name())
    }
}
