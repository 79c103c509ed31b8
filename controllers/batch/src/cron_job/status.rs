//! The status of a CronJob.

use k8s_openapi::api::core::v1::ObjectReference;
use serde::Serialize;
use steersman_api::Time;
use steersman_kinds::cron_job::{ActiveJob, CronJobStatus};

/// The status of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    /// The jobs that run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<ObjectReference>,
    /// The time for which the last job was scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// When a job last completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Time>,
}

impl Status {
    /// The status of a cached CronJob.
    pub(super) fn of(status: &CronJobStatus) -> Self {
        Self {
            active: status.active.iter().map(reference).collect(),
            last_schedule_time: status.last_schedule_time,
            last_successful_time: status.last_successful_time,
        }
    }
}

fn reference(job: &ActiveJob) -> ObjectReference {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    ObjectReference {
        api_version: some(&job.api_version),
        field_path: some(&job.field_path),
        kind: some(&job.kind),
        name: some(&job.name),
        namespace: some(&job.namespace),
        resource_version: some(&job.resource_version),
        uid: some(&job.uid.to_string()),
    }
}
