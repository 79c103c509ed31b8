//! Runs of CronJobs that go from one manager to the other.

use std::path::Path;

use serde_json::json;

use support::Cluster;
use support::cron_jobs::{Scheduled, minutes_ago};
use support::manager::Manager;

const CRON_JOBS: &str = "--controllers=cronjob-controller";

/// Runs handed over from steersman to kube-controller-manager and back: no run gets a second job.
pub(super) async fn there_and_back(assets: &Path, cluster: Cluster) {
    let (client, kubeconfig) = (cluster.client(), cluster.kubeconfig());
    let mut cron_jobs = Vec::new();
    for policy in ["Allow", "Forbid", "Replace"] {
        let spec = json!({ "concurrencyPolicy": policy, "schedule": "@every 1h" });
        cron_jobs.push(Scheduled::create(&client, &policy.to_lowercase(), spec).await);
    }
    let run = minutes_ago(20);
    let ours = || Manager::start(&kubeconfig, &[CRON_JOBS]);
    let upstream = || Manager::start_upstream(assets, &kubeconfig, &[CRON_JOBS]);

    let first = ours();
    let mut made = Vec::new();
    for cron_job in &cron_jobs {
        made.push(cron_job.start(run).await);
    }
    drop(first);
    let (jobs, before) = (job_uids(&cron_jobs).await, all_of(&cron_jobs).await);
    let second = upstream();
    start_one_more(&client, "second").await;
    assert_eq!(all_of(&cron_jobs).await, before, "upstream changed what we left");

    // As after an end between the creation of a job and the write of the status.
    for cron_job in &cron_jobs {
        cron_job.patch_status(json!({ "active": null })).await;
        cron_job.run(run).await;
    }
    start_one_more(&client, "third").await;
    assert_eq!(job_uids(&cron_jobs).await, jobs, "upstream makes no second job of a run");
    drop(second);
    let fourth = ours();
    for (cron_job, job) in cron_jobs.iter().zip(&made) {
        cron_job.settles(&[job]).await;
    }
    assert_eq!(job_uids(&cron_jobs).await, jobs, "we make no second job of a run");
    drop(fourth);

    // Runs of upstream's.
    let fifth = upstream();
    for cron_job in &cron_jobs[..1] {
        cron_job.start(minutes_ago(10)).await;
    }
    drop(fifth);
    let before = all_of(&cron_jobs).await;
    let _sixth = ours();
    start_one_more(&client, "sixth").await;
    assert_eq!(all_of(&cron_jobs).await, before, "we changed what upstream left");
}

/// Makes the running manager start the job of a new CronJob. Once it has, it has also synced the older ones.
async fn start_one_more(client: &kube::Client, name: &str) {
    Scheduled::create(client, name, json!({})).await.start(minutes_ago(1)).await;
}

async fn all_of(cron_jobs: &[Scheduled]) -> Vec<(String, Option<String>)> {
    let mut versions = Vec::new();
    for cron_job in cron_jobs {
        versions.extend(cron_job.versions().await);
    }
    versions
}

async fn job_uids(cron_jobs: &[Scheduled]) -> Vec<Option<String>> {
    let mut uids = Vec::new();
    for cron_job in cron_jobs {
        for name in cron_job.job_names().await {
            uids.push(cron_job.jobs.get(&name).await.unwrap().metadata.uid);
        }
    }
    uids
}
