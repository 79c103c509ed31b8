//! Jobs, in groups of fields.

use steersman_api::{ArcStr, Time, Uid, condition};
use steersman_informer::wire::Opaque;
use steersman_informer::{Interned, kind, projection};

use super::selector::SelectorSpec;

projection! {
    /// What is wanted of a job. What the API server sets by default may still be absent, in a job from before the field.
    pub struct JobSpec {
        /// How many pods may run at once.
        pub parallelism: Option<i32> = 1 "parallelism",
        /// How many must succeed; none: any one.
        pub completions: Option<i32> = 2 "completions",
        /// For how many seconds it may be active.
        pub active_deadline_seconds: Option<i64> = 3 "activeDeadlineSeconds",
        /// Which pods are its own.
        pub selector: Option<SelectorSpec> = 4 "selector",
        /// What policy looks at of its pods' template.
        pub template: TemplateGlance = 6 "template",
        /// How many pods may fail.
        pub backoff_limit: Option<i32> = 7 "backoffLimit",
        /// `NonIndexed` or `Indexed`.
        pub completion_mode: Option<Interned> = 9 "completionMode",
        /// Whether it shall have no pods.
        pub suspend: bool = 10 "suspend",
        /// Present or not.
        pub pod_failure_policy: Option<Opaque> = 11 "podFailurePolicy",
        /// How many pods of an index may fail.
        pub backoff_limit_per_index: Option<i32> = 12 "backoffLimitPerIndex",
        /// `TerminatingOrFailed` or `Failed`.
        pub pod_replacement_policy: Option<Interned> = 14 "podReplacementPolicy",
        /// Which controller it is for.
        pub managed_by: Option<ArcStr> = 15 "managedBy",
        /// Present or not.
        pub success_policy: Option<Opaque> = 16 "successPolicy",
    }

    /// A look into a pod template.
    pub struct TemplateGlance {
        /// A look into its spec.
        pub spec: TemplateSpecGlance = 2 "spec",
    }

    /// A look into a pod template's spec.
    pub struct TemplateSpecGlance {
        /// `Never` or `OnFailure`.
        pub restart_policy: Interned = 3 "restartPolicy",
    }

    /// What its pods are made from.
    pub struct JobTemplate {
        /// A `PodTemplateSpec`.
        pub template: Opaque = 6 "template",
    }

    /// How far it is.
    pub struct JobStatus {
        /// One of a type at the most.
        pub conditions: Vec<JobCondition> = 1 "conditions",
        /// Since when it is active.
        pub start_time: Option<Time> = 2 "startTime",
        /// When it was complete.
        pub completion_time: Option<Time> = 3 "completionTime",
        /// Pods that are neither finished nor being deleted.
        pub active: i32 = 4 "active",
        /// Pods (of an indexed job: indexes) that succeeded.
        pub succeeded: i32 = 5 "succeeded",
        /// Pods that failed.
        pub failed: i32 = 6 "failed",
        /// Such as `0-2,5`.
        pub completed_indexes: ArcStr = 7 "completedIndexes",
        /// Finished pods that are not in the counters, because they may still have their finalizers.
        pub uncounted_terminated_pods: Option<UncountedTerminatedPods> = 8 "uncountedTerminatedPods",
        /// Active pods that are ready.
        pub ready: Option<i32> = 9 "ready",
        /// Pods that are being deleted and have not finished.
        pub terminating: Option<i32> = 11 "terminating",
    }

    /// How a job is doing in one respect.
    pub struct JobCondition {
        /// Such as `Complete`.
        pub kind: Interned = 1 "type",
        /// Whether it holds.
        pub status: condition::ConditionStatus = 2 "status",
        /// When it was last looked at.
        pub last_probe_time: Option<Time> = 3 "lastProbeTime",
        /// When that last changed.
        pub last_transition_time: Option<Time> = 4 "lastTransitionTime",
        /// One word for programs.
        pub reason: Interned = 5 "reason",
        /// A sentence for people.
        pub message: ArcStr = 6 "message",
    }

    /// Finished pods by their uids.
    pub struct UncountedTerminatedPods {
        /// Those that succeeded.
        pub succeeded: Vec<Uid> = 1 "succeeded",
        /// Those that failed.
        pub failed: Vec<Uid> = 2 "failed",
    }
}

impl JobStatus {
    /// Whether the job has come to its end, as upstream's `IsJobFinished`.
    pub fn is_finished(&self) -> bool {
        self.conditions.iter().any(|condition| {
            condition.status == condition::ConditionStatus::True
                && (condition.kind == "Complete" || condition.kind == "Failed")
        })
    }
}

/// What a job's `managedBy` says if it is for the job controller (as does its absence).
pub const JOB_CONTROLLER_NAME: &str = "kubernetes.io/job-controller";

impl JobSpec {
    /// The controller that the job is for, if it is not this one.
    pub fn managed_by_other(&self) -> Option<&ArcStr> {
        self.managed_by.as_ref().filter(|name| *name != JOB_CONTROLLER_NAME)
    }
}

kind! {
    /// A job.
    pub struct Job("batch", "v1", "jobs") {
        spec: JobSpec = 2 "spec",
        template: JobTemplate = 2 "spec",
        status: JobStatus = 3 "status",
    }
}
