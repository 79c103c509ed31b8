//! The cached fields of CronJobs, in groups.

use steersman_api::{ArcStr, Time, Uid};
use steersman_informer::wire::Opaque;
use steersman_informer::{Interned, kind, projection};

projection! {
    /// A CronJob's spec without the template of its jobs. A field may be absent although the API server has a default for it:
    /// the CronJob may be older than the field.
    pub struct CronJobSpec {
        /// When jobs are due, in the notation of cron.
        pub schedule: ArcStr = 1 "schedule",
        /// How late a job may start, in seconds.
        pub starting_deadline_seconds: Option<i64> = 2 "startingDeadlineSeconds",
        /// `Allow`, `Forbid` or `Replace`.
        pub concurrency_policy: Interned = 3 "concurrencyPolicy",
        /// Whether no more jobs are started.
        pub suspend: bool = 4 "suspend",
        /// The number of completed jobs to keep. `None`: all.
        pub successful_jobs_history_limit: Option<i32> = 6 "successfulJobsHistoryLimit",
        /// The number of failed jobs to keep. `None`: all.
        pub failed_jobs_history_limit: Option<i32> = 7 "failedJobsHistoryLimit",
        /// The name of the schedule's time zone. `None`: that of the controller's process.
        pub time_zone: Option<ArcStr> = 8 "timeZone",
    }

    /// The template of the CronJob's jobs.
    pub struct CronJobTemplate {
        /// The whole `JobTemplateSpec`, as the API server encoded it.
        pub job_template: Opaque = 5 "jobTemplate",
    }

    /// A CronJob's status.
    pub struct CronJobStatus {
        /// The jobs that run.
        pub active: Vec<ActiveJob> = 1 "active",
        /// The time for which the last job was scheduled.
        pub last_schedule_time: Option<Time> = 4 "lastScheduleTime",
        /// When a job last completed.
        pub last_successful_time: Option<Time> = 5 "lastSuccessfulTime",
    }

    /// A reference to a job: all fields of an `ObjectReference`, so that the list can be written back.
    pub struct ActiveJob {
        /// `Job`.
        pub kind: Interned = 1 "kind",
        /// The job's namespace.
        pub namespace: Interned = 2 "namespace",
        /// The job's name.
        pub name: ArcStr = 3 "name",
        /// The job's uid.
        pub uid: Uid = 4 "uid",
        /// `batch/v1`.
        pub api_version: Interned = 5 "apiVersion",
        /// The job's version when it was created.
        pub resource_version: ArcStr = 6 "resourceVersion",
        /// Unused for jobs.
        pub field_path: ArcStr = 7 "fieldPath",
    }
}

kind! {
    /// A CronJob.
    pub struct CronJob("batch", "v1", "cronjobs") {
        spec: CronJobSpec = 2 "spec",
        template: CronJobTemplate = 2 "spec",
        status: CronJobStatus = 3 "status",
    }
}
