//! CronJobs against an API server whose clock and whose timers are paused: hours pass at once.

#![allow(clippy::unwrap_used, reason = "a test that meets what it did not expect should end")]

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use steersman_api::{GroupVersionResource, ObjectKey};
use steersman_apiserver::{Calls, Failure, Verb};
use steersman_controller::testing::{Cluster, settle};
use steersman_controllers_batch::cron_job::construct;

struct CronJobs {
    cluster: Cluster,
}

impl CronJobs {
    async fn start(spec: Value) -> Self {
        let cron_jobs = Self { cluster: Cluster::start().await };
        let mut cron_job = json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"namespace": "default", "name": "backup"},
            "spec": {"jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
            }}}}},
        });
        cron_job["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let typed: DynamicObject = serde_json::from_value(cron_job).unwrap();
        cron_jobs.api("CronJob").create(&PostParams::default(), &typed).await.unwrap();
        cron_jobs
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let group = if kind == "Event" { "" } else { "batch" };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        Api::namespaced_with(self.cluster.server.in_memory_client(), "default", &resource)
    }

    fn status(&self) -> Value {
        let resource = GroupVersionResource::new("batch", "v1", "cronjobs");
        let key = ObjectKey::new("default", "backup");
        self.cluster.server.peek(&resource, &key).unwrap_or_default()["status"].clone()
    }

    /// The names of the jobs, and how late each was created, in seconds.
    async fn jobs(&self) -> Vec<(String, i64)> {
        let jobs = self.api("Job").list(&ListParams::default()).await.unwrap().items;
        let lateness = |job: &DynamicObject| {
            let scheduled = &job.metadata.annotations.as_ref().unwrap()["batch.kubernetes.io/cronjob-scheduled-timestamp"];
            let created = job.metadata.creation_timestamp.as_ref().unwrap().0.as_second();
            created - scheduled.parse::<jiff::Timestamp>().unwrap().as_second()
        };
        jobs.iter().map(|job| (job.metadata.name.clone().unwrap(), lateness(job))).collect()
    }

    /// The number of events with this reason, each as often as it occurred.
    async fn events(&self, reason: &str) -> i64 {
        settle().await;
        let events = self.api("Event").list(&ListParams::default()).await.unwrap().items;
        let of_reason = events.iter().filter(|event| event.data["reason"] == reason);
        of_reason.map(|event| event.data["count"].as_i64().unwrap_or(1)).sum()
    }
}

/// An hourly schedule whose first run is in 50 minutes. The server's clock begins at the present time.
fn hourly() -> String {
    let minutes = jiff::Timestamp::now().as_second() / 60;
    format!("{} * * * *", (minutes + 50) % 60)
}

async fn hours(hours: u64) {
    tokio::time::sleep(Duration::from_secs(hours * 3600)).await;
}

#[tokio::test(start_paused = true)]
async fn each_run_has_its_job_within_the_second() {
    let cron_jobs = CronJobs::start(json!({"schedule": hourly(), "timeZone": "Etc/UTC"})).await;
    let controller = cron_jobs.cluster.run(construct);
    hours(48).await;
    let jobs = cron_jobs.jobs().await;
    assert_eq!(jobs.len(), 48);
    assert!(jobs.iter().all(|(_, late)| *late == 0), "{jobs:?}");
    assert_eq!(cron_jobs.status()["active"].as_array().unwrap().len(), 48);
    let metrics = controller.metrics.gather();
    let skew = metrics
        .iter()
        .find(|family| family.name() == "cronjob_controller_job_creation_skew_duration_seconds")
        .unwrap();
    assert_eq!(skew.get_metric()[0].get_histogram().get_sample_count(), 48);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_makes_no_second_job() {
    for failure in [Failure::ResetAfterwards, Failure::TimeoutAfterwards, Failure::InternalError] {
        for calls in [Calls::to("jobs").verb(Verb::Create), Calls::to("cronjobs").subresource("status")] {
            let cron_jobs = CronJobs::start(json!({"schedule": hourly(), "timeZone": "Etc/UTC"})).await;
            cron_jobs.cluster.server.faults().fail(1, calls, failure.clone());
            let controller = cron_jobs.cluster.run(construct);
            hours(2).await;
            settle().await;
            let jobs = cron_jobs.jobs().await;
            assert_eq!(jobs.len(), 2, "{failure:?}");
            let active = cron_jobs.status()["active"].as_array().unwrap().clone();
            let names: Vec<_> = active.iter().map(|job| job["name"].as_str().unwrap()).collect();
            let made: Vec<_> = jobs.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, made, "{failure:?}");
            controller.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn caches_that_lag_make_no_second_job_and_miss_none() {
    let cron_jobs = CronJobs::start(json!({"schedule": "* * * * *", "concurrencyPolicy": "Replace"})).await;
    let faults = cron_jobs.cluster.server.faults();
    faults.delay_watches(Calls::to("jobs").verb(Verb::Watch), Duration::from_secs(20));
    faults.delay_watches(Calls::to("cronjobs").verb(Verb::Watch), Duration::from_secs(10));
    let recording = cron_jobs.cluster.server.record();
    let controller = cron_jobs.cluster.run(construct);
    hours(1).await;
    let created = recording.count(&Calls::to("jobs").verb(Verb::Create));
    // The last run may be due just when the hour ends.
    assert!((59..=60).contains(&created), "{created}");
    assert_eq!(cron_jobs.jobs().await.len(), 1);
    assert_eq!(cron_jobs.events("MissingJob").await + cron_jobs.events("UnexpectedJob").await, 0);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_goes_on_where_the_last_one_ended() {
    let cron_jobs =
        CronJobs::start(json!({"schedule": hourly(), "timeZone": "Etc/UTC", "concurrencyPolicy": "Forbid"}))
            .await;
    let controller = cron_jobs.cluster.run(construct);
    hours(1).await;
    controller.stop().await;
    let (jobs, status) = (cron_jobs.jobs().await, cron_jobs.status());
    assert_eq!(jobs.len(), 1);
    let recording = cron_jobs.cluster.server.record();
    let controller = cron_jobs.cluster.run(construct);
    tokio::time::sleep(Duration::from_secs(30 * 60)).await;
    let writes = recording.count(&Calls::to("jobs").verb(Verb::Create))
        + recording.count(&Calls::to("cronjobs").subresource("status"));
    assert_eq!((writes, cron_jobs.status()), (0, status));
    hours(3).await;
    assert_eq!(cron_jobs.jobs().await, jobs, "the policy forbids another one");
    assert_eq!(cron_jobs.events("JobAlreadyActive").await, 3);
    controller.stop().await;
}

/// A process dies in the middle of a call, and the caches of its successor lag behind.
#[tokio::test(start_paused = true)]
async fn a_process_that_dies_in_a_call_leaves_no_run_out_and_none_twice() {
    let create = || Calls::to("jobs").verb(Verb::Create);
    let write = || Calls::to("cronjobs").subresource("status");
    for (calls, failure, policy) in [
        (create(), Failure::Hang, "Allow"),
        (create(), Failure::HangAfterwards, "Allow"),
        (create(), Failure::HangAfterwards, "Replace"),
        (write(), Failure::Hang, "Allow"),
        (write(), Failure::Hang, "Replace"),
        (write(), Failure::HangAfterwards, "Allow"),
    ] {
        let what = format!("{failure:?} {policy}");
        let spec = json!({"schedule": hourly(), "timeZone": "Etc/UTC", "concurrencyPolicy": policy});
        let cron_jobs = CronJobs::start(spec).await;
        let faults = cron_jobs.cluster.server.faults();
        faults.fail(1, calls, failure);
        let recording = cron_jobs.cluster.server.record();
        let first = cron_jobs.cluster.run(construct);
        while faults.pending() > 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        drop(first);
        faults.delay_watches(Calls::to("jobs").verb(Verb::Watch), Duration::from_secs(20));
        faults.delay_watches(Calls::to("cronjobs").verb(Verb::Watch), Duration::from_secs(10));
        let second = cron_jobs.cluster.run(construct);
        hours(2).await;
        settle().await;
        let jobs = cron_jobs.jobs().await;
        let kept = if policy == "Replace" { 1 } else { 3 };
        assert_eq!(jobs.len(), kept, "{what}: {jobs:?}");
        let active = cron_jobs.status()["active"].as_array().unwrap().clone();
        let names: BTreeSet<_> = active.iter().map(|job| job["name"].as_str().unwrap()).collect();
        let made: BTreeSet<_> = jobs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, made, "{what}");
        // A run whose job exists may be asked for once more, and is refused by its name.
        let asked = recording.count(&create());
        assert!((3..=4).contains(&asked), "{what}: {asked} creations");
        second.stop().await;
    }
}
