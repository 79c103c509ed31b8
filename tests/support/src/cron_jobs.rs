//! CronJobs, and the job controller's part in them: who ends their jobs.

use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use steersman_api::Time;

use super::eventually;

/// A CronJob at the API server.
pub struct Scheduled {
    pub name: String,
    pub uid: String,
    pub api: Api<CronJob>,
    pub jobs: Api<Job>,
    events: Api<Event>,
}

/// The time this many minutes ago.
pub fn minutes_ago(minutes: i64) -> Time {
    Time::from_seconds(Time::now().seconds() - minutes * 60)
}

/// The name of the job that runs at a time.
pub fn job_name(cron_job: &str, run: Time) -> String {
    format!("{cron_job}-{}", run.seconds() / 60)
}

/// A schedule that comes once a day, at the hour and the minute of this time.
pub fn daily_at(time: Time) -> String {
    let minutes = time.seconds() / 60;
    format!("{} {} * * *", minutes % 60, minutes / 60 % 24)
}

impl Scheduled {
    /// Creates one that runs each hour after the last run, with these further fields of the spec.
    pub async fn create(client: &kube::Client, name: &str, spec: Value) -> Self {
        let mut manifest = json!({
            "metadata": { "name": name },
            "spec": {
                "schedule": "@every 1h",
                "jobTemplate": { "spec": { "template": { "spec": {
                    "restartPolicy": "Never", "containers": [{ "name": "main", "image": "busybox" }],
                } } } },
            },
        });
        for (field, value) in spec.as_object().expect("a spec is an object") {
            manifest["spec"][field] = value.clone();
        }
        let api = Api::<CronJob>::default_namespaced(client.clone());
        let cron_job = serde_json::from_value(manifest).expect("it is a CronJob");
        let created = api.create(&PostParams::default(), &cron_job).await.expect("a CronJob must be made");
        Self {
            name: name.to_owned(),
            uid: created.metadata.uid.expect("a created object has a uid"),
            api,
            jobs: Api::default_namespaced(client.clone()),
            events: Api::default_namespaced(client.clone()),
        }
    }

    /// Changes the spec.
    pub async fn patch(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.api.patch(&self.name, &PatchParams::default(), &patch).await.expect("it can be changed");
    }

    /// Changes the status.
    pub async fn patch_status(&self, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api.patch_status(&self.name, &PatchParams::default(), &patch).await.expect("it can be changed");
    }

    /// Makes a run due, by setting the last one an hour before it. Returns the name of its job.
    pub async fn run(&self, run: Time) -> String {
        let last = Time::from_seconds(run.seconds() - 3600);
        self.patch_status(json!({ "lastScheduleTime": last })).await;
        job_name(&self.name, run)
    }

    /// As [`run`](Self::run), and waits until the job is in the status.
    pub async fn start(&self, run: Time) -> String {
        let job = self.run(run).await;
        self.has_active(&job).await;
        job
    }

    /// Waits until a job is in the status.
    pub async fn has_active(&self, job: &str) {
        eventually(&format!("{job} is active"), || async {
            self.active().await.iter().any(|name| name == job).then_some(())
        })
        .await;
    }

    /// The status.
    pub async fn status(&self) -> CronJobStatus {
        self.api.get_status(&self.name).await.expect("it exists").status.unwrap_or_default()
    }

    /// The names of the active jobs.
    pub async fn active(&self) -> Vec<String> {
        let active = self.status().await.active.unwrap_or_default();
        active.into_iter().filter_map(|job| job.name).collect()
    }

    /// Waits until these are the active jobs.
    pub async fn settles(&self, active: &[&str]) {
        eventually(&format!("{active:?} are active"), || async {
            (self.active().await == active).then_some(())
        })
        .await;
    }

    /// The names of its jobs that are not being deleted.
    pub async fn job_names(&self) -> Vec<String> {
        let jobs = self.jobs.list(&ListParams::default()).await.expect("jobs can be listed").items;
        let owned = jobs.into_iter().filter(|job| {
            job.metadata.deletion_timestamp.is_none()
                && job.metadata.owner_references.iter().flatten().any(|owner| owner.uid == self.uid)
        });
        owned.filter_map(|job| job.metadata.name).collect()
    }

    /// Waits until it has these jobs and no others.
    pub async fn has(&self, jobs: &[&str]) {
        let mut jobs = jobs.to_vec();
        jobs.sort_unstable();
        eventually(&format!("its jobs are {jobs:?}"), || async {
            (self.job_names().await == jobs).then_some(())
        })
        .await;
    }

    /// Waits for an event of the CronJob.
    pub async fn tells(&self, reason: &str, message: &str) {
        eventually(&format!("{reason}: {message}"), || async {
            let events = self.events.list(&ListParams::default()).await.ok()?.items;
            let found = events.into_iter().find(|event| {
                event.involved_object.uid.as_ref() == Some(&self.uid)
                    && event.reason.as_deref() == Some(reason)
                    && event.message.as_deref() == Some(message)
            })?;
            let source = found.source.and_then(|source| source.component);
            assert_eq!(source.as_deref(), Some("cronjob-controller"));
            Some(())
        })
        .await;
    }

    /// Ends a job at this time, as the job controller does.
    pub async fn end(&self, job: &str, condition: &str, at: Time) {
        end(&self.jobs, job, condition, at).await;
    }

    /// The version of the CronJob and of each of its jobs.
    pub async fn versions(&self) -> Vec<(String, Option<String>)> {
        let cron_job = self.api.get(&self.name).await.expect("it exists");
        let mut versions = vec![(self.name.clone(), cron_job.metadata.resource_version)];
        for name in self.job_names().await {
            let job = self.jobs.get(&name).await.expect("it was listed");
            versions.push((name, job.metadata.resource_version));
        }
        versions
    }
}

/// Ends a job at this time, with the condition `Complete` or `Failed`, as the job controller does.
pub async fn end(jobs: &Api<Job>, name: &str, condition: &str, at: Time) {
    let before = if condition == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
    let is = |kind| json!({ "type": kind, "status": "True", "lastProbeTime": at, "lastTransitionTime": at });
    let mut status = json!({ "startTime": at, "conditions": [is(before), is(condition)] });
    if condition == "Complete" {
        status["completionTime"] = json!(at);
        status["succeeded"] = json!(1);
    }
    let patch = Patch::Merge(json!({ "status": status }));
    jobs.patch_status(name, &PatchParams::default(), &patch).await.expect("the job can be ended");
}
