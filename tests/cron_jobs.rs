//! Jobs started on schedule by the manager, as a process, while a test plays the job controller. Tests make a run due by setting
//! the time of the last one back.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use steersman_api::Time;
use support::cron_jobs::{Scheduled, daily_at, job_name, minutes_ago};
use support::jobs;
use support::manager::Manager;
use support::{Cluster, eventually};

const CONTROLLER: &[&str] =
    &["--controllers=cronjob-controller", "--kube-api-qps=1000", "--kube-api-burst=1000"];

/// The cluster with a manager at work. The manager ends before another test has its turn.
struct Managed {
    client: kube::Client,
    _manager: Manager,
    _cluster: Cluster,
}

impl Managed {
    async fn start() -> Self {
        let cluster = Cluster::start_alone().await;
        let manager = Manager::start(&cluster.kubeconfig(), CONTROLLER);
        Self { client: cluster.client(), _manager: manager, _cluster: cluster }
    }

    async fn create(&self, name: &str, spec: Value) -> Scheduled {
        Scheduled::create(&self.client, name, spec).await
    }

    /// Waits until the manager has started a job of another CronJob, and so has dealt with what came before.
    async fn has_caught_up(&self, name: &str) {
        self.create(name, json!({})).await.start(minutes_ago(1)).await;
    }
}

/// The time of the API, from its text.
fn time(time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>) -> Option<Time> {
    time.map(|time| time.0.into())
}

#[tokio::test]
async fn the_job_of_a_run_is_made_from_the_template() {
    let managed = Managed::start().await;
    let cron_job = managed
        .create(
            "backup",
            json!({
                "timeZone": "Asia/Kolkata",
                "jobTemplate": {
                    "metadata": {
                        "labels": { "app": "backup" }, "annotations": { "example.com/note": "kept" },
                        "finalizers": ["example.com/left-out"],
                    },
                    "spec": { "backoffLimit": 2, "template": { "spec": {
                        "restartPolicy": "Never", "containers": [{ "name": "main", "image": "busybox" }],
                    } } },
                },
            }),
        )
        .await;
    let run = Time::from_seconds(minutes_ago(10).seconds() / 60 * 60);
    let name = cron_job.start(run).await;
    assert_eq!(cron_job.job_names().await, [name.as_str()]);
    let job = cron_job.jobs.get(&name).await.unwrap();
    let metadata = job.metadata;
    assert_eq!(metadata.labels.unwrap()["app"], "backup");
    assert_eq!(metadata.finalizers, None);
    assert_eq!(job.spec.unwrap().backoff_limit, Some(2));
    let annotations = metadata.annotations.unwrap();
    assert_eq!((annotations.len(), annotations["example.com/note"].as_str()), (2, "kept"));
    let there = jiff::tz::Offset::from_seconds(19_800).unwrap().to_datetime(run.into());
    let scheduled = &annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(*scheduled, format!("{there}+05:30"));
    let owner = json!([{
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "backup", "uid": cron_job.uid,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(serde_json::to_value(metadata.owner_references).unwrap(), owner);

    let status = cron_job.status().await;
    assert_eq!(time(status.last_schedule_time.as_ref()), Some(run));
    let reference = json!([{
        "apiVersion": "batch/v1", "kind": "Job", "name": name, "namespace": metadata.namespace,
        "uid": metadata.uid, "resourceVersion": metadata.resource_version,
    }]);
    assert_eq!(serde_json::to_value(status.active).unwrap(), reference);
    cron_job.tells("SuccessfulCreate", &format!("Created job {name}")).await;
}

#[tokio::test]
async fn a_run_comes_without_a_change_of_anything() {
    let managed = Managed::start().await;
    let cron_job = managed.create("often", json!({ "schedule": "@every 2s" })).await;
    let active = eventually("a job is active", || async { cron_job.active().await.pop() }).await;
    assert!(cron_job.job_names().await.contains(&active));
}

#[tokio::test]
async fn an_ended_job_is_active_no_more_and_the_last_success_is_kept() {
    let managed = Managed::start().await;
    let cron_job = managed.create("backup", json!({})).await;
    let (ok, bad) = (cron_job.start(minutes_ago(9)).await, cron_job.start(minutes_ago(8)).await);
    let end = minutes_ago(5);
    cron_job.end(&ok, "Complete", end).await;
    cron_job.settles(&[&bad]).await;
    cron_job.tells("SawCompletedJob", &format!("Saw completed job: {ok}, condition: Complete")).await;
    assert_eq!(time(cron_job.status().await.last_successful_time.as_ref()), Some(end));
    cron_job.end(&bad, "Failed", minutes_ago(1)).await;
    cron_job.settles(&[]).await;
    cron_job.tells("SawCompletedJob", &format!("Saw completed job: {bad}, condition: Failed")).await;
    assert_eq!(time(cron_job.status().await.last_successful_time.as_ref()), Some(end));
}

#[tokio::test]
async fn the_policy_says_what_becomes_of_a_job_that_still_runs() {
    let managed = Managed::start().await;
    let with = |policy: &str| json!({ "concurrencyPolicy": policy });

    let allow = managed.create("allow", with("Allow")).await;
    let jobs = [allow.start(minutes_ago(9)).await, allow.start(minutes_ago(8)).await];
    assert_eq!(allow.active().await, jobs);

    let replace = managed.create("replace", with("Replace")).await;
    let old = replace.start(minutes_ago(9)).await;
    let new = replace.start(minutes_ago(8)).await;
    replace.settles(&[&new]).await;
    replace.has(&[&new]).await;
    replace.tells("SuccessfulDelete", &format!("Deleted job {old}")).await;

    let forbid = managed.create("forbid", with("Forbid")).await;
    let old = forbid.start(minutes_ago(9)).await;
    let new = forbid.run(minutes_ago(8)).await;
    let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
    forbid.tells("JobAlreadyActive", message).await;
    assert_eq!(forbid.job_names().await, [old.as_str()]);
    // The run is made up for once the job has ended.
    forbid.end(&old, "Complete", minutes_ago(1)).await;
    forbid.settles(&[&new]).await;
}

#[tokio::test]
async fn finished_jobs_beyond_the_limits_are_deleted_from_the_oldest_on() {
    let managed = Managed::start().await;
    let limits = json!({ "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1 });
    let cron_job = managed.create("backup", limits).await;
    let mut jobs = Vec::new();
    for minutes in [20, 19, 18, 17, 16] {
        jobs.push(cron_job.start(minutes_ago(minutes)).await);
    }
    // The jobs started in another order than they were scheduled.
    for (job, condition, minutes) in
        [(1, "Complete", 9), (0, "Complete", 8), (3, "Failed", 7), (2, "Complete", 6), (4, "Failed", 5)]
    {
        cron_job.end(&jobs[job], condition, minutes_ago(minutes)).await;
    }
    cron_job.has(&[&jobs[0], &jobs[2], &jobs[4]]).await;
    cron_job.settles(&[]).await;
    cron_job.tells("SuccessfulDelete", &format!("Deleted job {}", jobs[1])).await;
    cron_job.patch(json!({ "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0 })).await;
    cron_job.has(&[]).await;
    // A job of which none is kept leaves its time.
    let end = minutes_ago(1);
    let last = cron_job.start(minutes_ago(2)).await;
    cron_job.end(&last, "Complete", end).await;
    cron_job.has(&[]).await;
    cron_job.settles(&[]).await;
    assert_eq!(time(cron_job.status().await.last_successful_time.as_ref()), Some(end));
}

#[tokio::test]
async fn a_suspended_cron_job_starts_nothing_until_it_is_resumed() {
    let managed = Managed::start().await;
    let cron_job = managed.create("backup", json!({ "suspend": true })).await;
    let job = cron_job.run(minutes_ago(5)).await;
    managed.has_caught_up("other").await;
    assert_eq!(cron_job.job_names().await, [""; 0]);
    cron_job.patch(json!({ "suspend": false })).await;
    cron_job.has_active(&job).await;
}

#[tokio::test]
async fn a_run_is_left_out_once_its_deadline_has_passed() {
    let managed = Managed::start().await;
    let run = minutes_ago(10);
    let spec = json!({ "schedule": daily_at(run), "timeZone": "Etc/UTC", "startingDeadlineSeconds": 60 });
    let cron_job = managed.create("backup", spec).await;
    cron_job.patch_status(json!({ "lastScheduleTime": minutes_ago(20 * 60) })).await;
    managed.has_caught_up("other").await;
    assert_eq!(cron_job.job_names().await, [""; 0]);
    cron_job.patch(json!({ "startingDeadlineSeconds": 3600 })).await;
    cron_job.has_active(&job_name("backup", run)).await;
}

#[tokio::test]
async fn after_many_missed_runs_the_last_one_has_a_job_and_a_warning_tells() {
    let managed = Managed::start().await;
    let cron_job = managed.create("backup", json!({ "schedule": "* * * * *" })).await;
    cron_job.patch_status(json!({ "lastScheduleTime": minutes_ago(200) })).await;
    let message =
        "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
    cron_job.tells("TooManyMissedTimes", message).await;
    let active = eventually("a job is active", || async { cron_job.active().await.pop() }).await;
    assert!(active >= job_name("backup", minutes_ago(2)), "{active}");
}

#[tokio::test]
async fn a_new_schedule_makes_up_for_no_run_that_it_would_have_had() {
    let managed = Managed::start().await;
    let cron_job = managed.create("backup", json!({ "timeZone": "Etc/UTC" })).await;
    cron_job.patch_status(json!({ "lastScheduleTime": minutes_ago(50) })).await;
    managed.has_caught_up("first").await;
    cron_job.patch(json!({ "schedule": daily_at(minutes_ago(10)) })).await;
    managed.has_caught_up("second").await;
    assert_eq!(cron_job.job_names().await, [""; 0]);
}

/// Upstream can't take the job for the run's: it looks for it without its namespace. Steersman does, as `hand_over` shows.
#[tokio::test]
async fn a_run_whose_status_was_lost_has_no_second_job() {
    let managed = Managed::start().await;
    let cron_job = managed.create("backup", json!({})).await;
    let run = minutes_ago(5);
    let job = cron_job.start(run).await;
    let uid = cron_job.jobs.get(&job).await.unwrap().metadata.uid;
    let last = Time::from_seconds(run.seconds() - 3600);
    cron_job.patch_status(json!({ "active": null, "lastScheduleTime": last })).await;
    let message = format!("Saw a job that the controller did not create or forgot: {job}");
    cron_job.tells("UnexpectedJob", &message).await;
    managed.has_caught_up("other").await;
    assert_eq!(cron_job.job_names().await, [job.as_str()]);
    assert_eq!(cron_job.jobs.get(&job).await.unwrap().metadata.uid, uid);
}

#[tokio::test]
async fn a_job_of_somebody_else_is_left_alone_though_a_run_would_have_its_name() {
    let managed = Managed::start().await;
    let cron_job = managed.create("backup", json!({ "concurrencyPolicy": "Replace" })).await;
    let run = minutes_ago(3);
    let foreign = jobs::job(&job_name("backup", run), json!({ "suspend": true }));
    let uid = cron_job.jobs.create(&PostParams::default(), &foreign).await.unwrap().metadata.uid;
    let name = cron_job.run(run).await;
    managed.has_caught_up("other").await;
    assert_eq!((cron_job.active().await, cron_job.job_names().await), (Vec::new(), Vec::new()));
    assert_eq!(cron_job.jobs.get(&name).await.unwrap().metadata.uid, uid);
}

#[tokio::test]
async fn an_active_job_that_is_gone_is_told_of_and_forgotten() {
    let managed = Managed::start().await;
    let cron_job = managed.create("backup", json!({ "concurrencyPolicy": "Forbid" })).await;
    let job = cron_job.start(minutes_ago(5)).await;
    cron_job.jobs.delete(&job, &DeleteParams::background()).await.unwrap();
    cron_job.settles(&[]).await;
    cron_job.tells("MissingJob", &format!("Active job went missing: {job}")).await;
    cron_job.start(minutes_ago(4)).await;
}
