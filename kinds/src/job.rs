//! The cached fields of jobs, in groups.

use steersman_api::{ArcStr, Time, Uid, condition};
use steersman_informer::wire::Opaque;
use steersman_informer::{Interned, kind, projection};

use super::selector::SelectorSpec;

projection! {
    /// A job's spec. A field may be absent although the API server has a default for it: the job may be older than the
    /// field.
    pub struct JobSpec {
        /// Maximum number of pods that run at once.
        pub parallelism: Option<i32> = 1 "parallelism",
        /// The number of pods that must succeed. `None`: one that succeeds is enough.
        pub completions: Option<i32> = 2 "completions",
        /// Maximum time that the job may be active, in seconds.
        pub active_deadline_seconds: Option<i64> = 3 "activeDeadlineSeconds",
        /// Selects the job's pods.
        pub selector: Option<SelectorSpec> = 4 "selector",
        /// The fields of the pod template that policy reads.
        pub template: TemplateGlance = 6 "template",
        /// The number of failed pods that the job tolerates.
        pub backoff_limit: Option<i32> = 7 "backoffLimit",
        /// `NonIndexed` or `Indexed`.
        pub completion_mode: Option<Interned> = 9 "completionMode",
        /// Whether the job is suspended, so that it has no pods.
        pub suspend: bool = 10 "suspend",
        /// What the controller does about failed pods. `None`: it counts and replaces each of them.
        pub pod_failure_policy: Option<PodFailurePolicy> = 11 "podFailurePolicy",
        /// The number of failed pods that the job tolerates for each index.
        pub backoff_limit_per_index: Option<i32> = 12 "backoffLimitPerIndex",
        /// The number of failed indexes that the job tolerates. `None`: it runs all indexes, however many fail.
        pub max_failed_indexes: Option<i32> = 13 "maxFailedIndexes",
        /// `TerminatingOrFailed` or `Failed`.
        pub pod_replacement_policy: Option<Interned> = 14 "podReplacementPolicy",
        /// The name of the controller that manages the job. `None`: the job controller.
        pub managed_by: Option<ArcStr> = 15 "managedBy",
        /// When the job succeeds before all indexes have.
        pub success_policy: Option<SuccessPolicy> = 16 "successPolicy",
    }

    /// What the controller does about failed pods.
    pub struct PodFailurePolicy {
        /// The rules. The first one that matches a failed pod decides.
        pub rules: Vec<PodFailurePolicyRule> = 1 "rules",
    }

    /// What the controller does about failed pods that match. A rule has either `on_exit_codes` or `on_pod_conditions`.
    pub struct PodFailurePolicyRule {
        /// `FailJob`, `FailIndex`, `Ignore` or `Count`.
        pub action: Interned = 1 "action",
        /// Matches pods by the exit codes of their containers.
        pub on_exit_codes: Option<OnExitCodes> = 2 "onExitCodes",
        /// Matches pods that have one of these conditions.
        pub on_pod_conditions: Vec<OnPodCondition> = 3 "onPodConditions",
    }

    /// Matches a container that ended with an exit code other than zero.
    pub struct OnExitCodes {
        /// The container's name. `None`: any container or init container.
        pub container_name: Option<ArcStr> = 1 "containerName",
        /// `In` or `NotIn`.
        pub operator: Interned = 2 "operator",
        /// The exit codes that `operator` compares with.
        pub values: Vec<i32> = 3 "values",
    }

    /// Matches a pod's condition.
    pub struct OnPodCondition {
        /// The condition's type.
        pub kind: ArcStr = 1 "type",
        /// The condition's status.
        pub status: condition::ConditionStatus = 2 "status",
    }

    /// When an indexed job succeeds before all of its indexes have.
    pub struct SuccessPolicy {
        /// The rules. The job succeeds once one of them holds.
        pub rules: Vec<SuccessPolicyRule> = 1 "rules",
    }

    /// The indexes that must succeed. At least one of the two fields is set.
    pub struct SuccessPolicyRule {
        /// The indexes that count, such as `0-2,5`. `None`: all of them.
        pub succeeded_indexes: Option<ArcStr> = 1 "succeededIndexes",
        /// How many of them must succeed. `None`: all of them.
        pub succeeded_count: Option<i32> = 2 "succeededCount",
    }

    /// The fields of a pod template that policy reads.
    pub struct TemplateGlance {
        /// The template's spec.
        pub spec: TemplateSpecGlance = 2 "spec",
    }

    /// The fields of a pod template's spec that policy reads.
    pub struct TemplateSpecGlance {
        /// `Never` or `OnFailure`.
        pub restart_policy: Interned = 3 "restartPolicy",
    }

    /// The template of the job's pods.
    pub struct JobTemplate {
        /// The whole `PodTemplateSpec`, as the API server encoded it.
        pub template: Opaque = 6 "template",
    }

    /// How long a job is kept after its end.
    pub struct JobTtl {
        /// The time from the job's end to its deletion, in seconds. `None`: the job is not deleted.
        pub ttl_seconds_after_finished: Option<i32> = 8 "ttlSecondsAfterFinished",
    }

    /// A job's status.
    pub struct JobStatus {
        /// The conditions, at most one of each type.
        pub conditions: Vec<JobCondition> = 1 "conditions",
        /// When the job became active.
        pub start_time: Option<Time> = 2 "startTime",
        /// When the job completed.
        pub completion_time: Option<Time> = 3 "completionTime",
        /// The number of pods that are neither finished nor being deleted.
        pub active: i32 = 4 "active",
        /// The number of pods (of an indexed job: indexes) that succeeded.
        pub succeeded: i32 = 5 "succeeded",
        /// The number of pods that failed.
        pub failed: i32 = 6 "failed",
        /// The indexes that succeeded, such as `0-2,5`.
        pub completed_indexes: ArcStr = 7 "completedIndexes",
        /// Finished pods that are not in the counters, because they may still have their finalizers.
        pub uncounted_terminated_pods: Option<UncountedTerminatedPods> = 8 "uncountedTerminatedPods",
        /// The number of active pods that are ready.
        pub ready: Option<i32> = 9 "ready",
        /// The indexes that failed, if the job limits the failures of each index.
        pub failed_indexes: Option<ArcStr> = 10 "failedIndexes",
        /// The number of pods that are being deleted and have not finished.
        pub terminating: Option<i32> = 11 "terminating",
    }

    /// A condition of a job.
    pub struct JobCondition {
        /// The condition's type, such as `Complete`.
        pub kind: Interned = 1 "type",
        /// Whether the condition holds.
        pub status: condition::ConditionStatus = 2 "status",
        /// When the condition was last probed.
        pub last_probe_time: Option<Time> = 3 "lastProbeTime",
        /// When `status` last changed.
        pub last_transition_time: Option<Time> = 4 "lastTransitionTime",
        /// Why `status` last changed, in one word for programs.
        pub reason: Interned = 5 "reason",
        /// Why `status` last changed, for people.
        pub message: ArcStr = 6 "message",
    }

    /// Finished pods that are not in the counters, by their uids.
    pub struct UncountedTerminatedPods {
        /// The pods that succeeded.
        pub succeeded: Vec<Uid> = 1 "succeeded",
        /// The pods that failed.
        pub failed: Vec<Uid> = 2 "failed",
    }
}

impl JobStatus {
    /// Whether the job is complete or has failed, as upstream's `IsJobFinished`.
    pub fn is_finished(&self) -> bool {
        self.conditions.iter().any(|condition| {
            condition.status == condition::ConditionStatus::True
                && (condition.kind == "Complete" || condition.kind == "Failed")
        })
    }
}

/// The value of `managedBy` that stands for the job controller. An absent field means the same.
pub const JOB_CONTROLLER_NAME: &str = "kubernetes.io/job-controller";

impl JobSpec {
    /// The name of the controller that manages the job. `None` if it is the job controller.
    pub fn managed_by_other(&self) -> Option<&ArcStr> {
        self.managed_by.as_ref().filter(|name| *name != JOB_CONTROLLER_NAME)
    }
}

kind! {
    /// A job.
    pub struct Job("batch", "v1", "jobs") {
        spec: JobSpec = 2 "spec",
        template: JobTemplate = 2 "spec",
        ttl: JobTtl = 2 "spec",
        status: JobStatus = 3 "status",
    }
}
