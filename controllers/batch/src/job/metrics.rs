//! The metrics of the job controller, under upstream's names.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, exponential_buckets};

use super::failure_policy::FailureAction;
use super::indexes::Indexes;
use super::plan::CreationReason;
use super::status::{Announcement, Status, StatusWrite};
use super::wanted::{Completions, Wanted};

/// The families `job_controller_*`. Clones share their counts. They count whether or not they are registered.
#[derive(Clone, Debug)]
pub struct Metrics {
    sync_duration: HistogramVec,
    syncs: IntCounterVec,
    finished: IntCounterVec,
    by_external_controller: IntCounterVec,
    pods_finished: IntCounterVec,
    pod_failures_by_policy: IntCounterVec,
    terminated_pods_tracked: IntCounterVec,
    finished_indexes: IntCounterVec,
    pods_created: IntCounterVec,
    stale_syncs: IntCounterVec,
}

/// What a sync did with pods: upstream's values of the label `action`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The sync only did what the job's end requires, or failed before it managed pods.
    Reconciling,
    /// The sync found the wanted number of pods.
    Tracking,
    /// The sync created pods, or must wait for the backoff to create them.
    PodsCreated,
    /// The sync deleted pods, or the job is suspended.
    PodsDeleted,
}

/// The result of a sync, a pod or a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Success {
    Yes,
    No,
}

impl Success {
    pub(super) fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Yes } else { Self::No }
    }

    fn ended(self) -> &'static str {
        match self {
            Self::Yes => "succeeded",
            Self::No => "failed",
        }
    }
}

impl Metrics {
    /// Makes the families, without registering them.
    pub fn new() -> Self {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(format!("job_controller_{name}"), help), labels)
                .expect("a constant metric description must be valid")
        };
        let buckets = exponential_buckets(0.004, 2.0, 15).expect("constant buckets must be valid");
        let duration =
            HistogramOpts::new("job_controller_job_sync_duration_seconds", "The time it took to sync a job");
        let sync_labels = ["completion_mode", "result", "action"];
        Self {
            sync_duration: HistogramVec::new(duration.buckets(buckets), &sync_labels)
                .expect("a constant metric description must be valid"),
            syncs: counter("job_syncs_total", "The number of job syncs", &sync_labels),
            finished: counter(
                "jobs_finished_total",
                "The number of finished jobs",
                &["completion_mode", "result", "reason"],
            ),
            by_external_controller: counter(
                "jobs_by_external_controller_total",
                "The number of Jobs managed by an external controller",
                &["controller_name"],
            ),
            pods_finished: counter(
                "job_pods_finished_total",
                "The number of finished Pods that are fully tracked",
                &["completion_mode", "result"],
            ),
            pod_failures_by_policy: counter(
                "pod_failures_handled_by_failure_policy_total",
                "The number of failed Pods by the action of the failure policy's rule that matched",
                &["action"],
            ),
            terminated_pods_tracked: counter(
                "terminated_pods_tracking_finalizer_total",
                "The number of terminated pods (phase=Failed|Succeeded) that got or lost the finalizer \
                 batch.kubernetes.io/job-tracking: event \"add\" or \"delete\"",
                &["event"],
            ),
            finished_indexes: counter(
                "job_finished_indexes_total",
                "The number of finished indexes: status \"succeeded\" or \"failed\", backoffLimit \"perIndex\" or \
                 \"global\"",
                &["status", "backoffLimit"],
            ),
            pods_created: counter(
                "job_pods_creation_total",
                "The number of Pods that the controller tried to create: status \"succeeded\" or \"failed\"; reason \
                 \"new\", \"recreate_terminating_or_failed\" or \"recreate_failed\"",
                &["reason", "status"],
            ),
            stale_syncs: counter(
                "stale_sync_skips_total",
                "Total number of Job syncs delayed because a cache was behind the controller's own writes",
                &["group", "resource"],
            ),
        }
    }

    /// Registers the families with `registry`.
    ///
    /// # Errors
    /// If `registry` already has a family of one of these names.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.sync_duration.clone()))?;
        for counter in [
            &self.syncs,
            &self.finished,
            &self.by_external_controller,
            &self.pods_finished,
            &self.pod_failures_by_policy,
            &self.terminated_pods_tracked,
            &self.finished_indexes,
            &self.pods_created,
            &self.stale_syncs,
        ] {
            registry.register(Box::new(counter.clone()))?;
        }
        Ok(())
    }

    pub(super) fn synced(&self, mode: &str, success: Success, action: Action, took: Duration) {
        let result = match success {
            Success::Yes => "success",
            Success::No => "error",
        };
        let action = match action {
            Action::Reconciling => "reconciling",
            Action::Tracking => "tracking",
            Action::PodsCreated => "pods_created",
            Action::PodsDeleted => "pods_deleted",
        };
        self.sync_duration.with_label_values(&[mode, result, action]).observe(took.as_secs_f64());
        self.syncs.with_label_values(&[mode, result, action]).inc();
    }

    /// Counts a sync that waits until the cache of that resource shows the controller's own writes. The caller must count
    /// it once, however often the sync looks at the cache meanwhile. Upstream counts each attempt, and attempts are at
    /// least a second apart. Here each event of the cache wakes the sync.
    pub(super) fn behind(&self, group: &str, resource: &str) {
        self.stale_syncs.with_label_values(&[group, resource]).inc();
    }

    /// Counts an attempt to create a pod. Callers do not count pods that the API server refuses because their namespace is
    /// being deleted, as in upstream. Upstream counts a failure also as a success; this counts each attempt once.
    pub(super) fn pod_created(&self, reason: CreationReason, success: Success) {
        let reason = match reason {
            CreationReason::New => "new",
            CreationReason::RecreateTerminatingOrFailed => "recreate_terminating_or_failed",
            CreationReason::RecreateFailed => "recreate_failed",
        };
        self.pods_created.with_label_values(&[reason, success.ended()]).inc();
    }

    pub(super) fn managed_by_other(&self, controller: &str) {
        self.by_external_controller.with_label_values(&[controller]).inc();
    }

    /// Counts a terminated pod that got the tracking finalizer.
    pub(super) fn tracking_began(&self) {
        self.terminated_pods_tracked.with_label_values(&["add"]).inc();
    }

    /// Counts a terminated pod that lost the tracking finalizer.
    pub(super) fn tracking_ended(&self) {
        self.terminated_pods_tracked.with_label_values(&["delete"]).inc();
    }

    /// Counts a pod about whose failure a rule of the pod failure policy decided. Each pod counts once; upstream's controller
    /// counts it again if the write that follows fails.
    pub(super) fn handled_by_policy(&self, action: FailureAction) {
        self.pod_failures_by_policy.with_label_values(&[action.name()]).inc();
    }

    /// Counts the pods, indexes and ends of jobs that a written status has and the one before did not.
    pub(super) fn status_written(&self, wanted: &Wanted, write: &StatusWrite) {
        let completions = wanted.completions;
        let mode = completions.mode();
        let (was, is) = (&write.was, &write.is);
        write.handled.iter().for_each(|action| self.handled_by_policy(*action));
        let more = |was: i32, is: i32| u64::try_from(i64::from(is) - i64::from(was)).unwrap_or(0);
        let succeeded = match completions {
            Completions::Indexes(count) => {
                let more_indexes = |was: &str, is: &str| {
                    let total = |text| super::count(Indexes::parse(text, count).total());
                    if was == is { 0 } else { more(total(was), total(is)) }
                };
                let succeeded = more_indexes(&was.completed_indexes, &is.completed_indexes);
                let limit = if wanted.per_index.is_some() { "perIndex" } else { "global" };
                self.finished_indexes.with_label_values(&["succeeded", limit]).inc_by(succeeded);
                if wanted.per_index.is_some() && was.failed_indexes != is.failed_indexes {
                    let text = |status: &Status| status.failed_indexes.clone().unwrap_or_default();
                    let failed = more_indexes(&text(was), &text(is));
                    self.finished_indexes.with_label_values(&["failed", limit]).inc_by(failed);
                }
                succeeded
            }
            Completions::Any | Completions::Count(_) => more(was.succeeded, is.succeeded),
        };
        let finished = |success: Success, count| {
            self.pods_finished.with_label_values(&[mode, success.ended()]).inc_by(count);
        };
        finished(Success::Yes, succeeded);
        finished(Success::No, more(was.failed, is.failed));
        for announcement in &write.announcements {
            let (success, reason) = match announcement {
                Announcement::Complete(reason) => (Success::Yes, reason),
                Announcement::Failed(reason, _) => (Success::No, reason),
                _ => continue,
            };
            self.finished.with_label_values(&[mode, success.ended(), reason]).inc();
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
