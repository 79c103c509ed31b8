//! Finished jobs deleted by the manager, as a process, when their TTL is over. A test plays the job controller.
//!
//! `STEERSMAN_TEST_MANAGER` names a kube-controller-manager to be tested in place of steersman.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail in this way, and say what it skips"
)]

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use steersman_api::Time;
use support::cron_jobs::{end, minutes_ago};
use support::jobs::{self, job};
use support::manager::Manager;
use support::{Cluster, eventually};

const CONTROLLER: &[&str] =
    &["--controllers=ttl-after-finished-controller", "--kube-api-qps=1000", "--kube-api-burst=1000"];

/// The cluster with a manager at work. The manager ends before another test has its turn.
struct Managed {
    client: kube::Client,
    jobs: Api<Job>,
    _manager: Manager,
    _cluster: Cluster,
}

impl Managed {
    async fn start() -> Self {
        let cluster = Cluster::start_alone().await;
        let manager = Manager::start(&cluster.kubeconfig(), CONTROLLER);
        let client = cluster.client();
        Self { jobs: Api::default_namespaced(client.clone()), client, _manager: manager, _cluster: cluster }
    }

    async fn create(&self, name: &str, ttl: Value) {
        jobs::create(&self.client, &job(name, json!({ "ttlSecondsAfterFinished": ttl }))).await;
    }

    async fn set_ttl(&self, name: &str, seconds: i32) {
        let patch = Patch::Merge(json!({ "spec": { "ttlSecondsAfterFinished": seconds } }));
        self.jobs.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until a job is being deleted, its pods before it.
    async fn goes(&self, name: &str) {
        let finalizers = eventually(&format!("{name} is deleted"), || async {
            let metadata = self.jobs.get(name).await.ok()?.metadata;
            metadata.deletion_timestamp.and(metadata.finalizers)
        })
        .await;
        assert_eq!(finalizers, ["foregroundDeletion"]);
    }

    async fn stays(&self, name: &str) {
        assert_eq!(self.jobs.get(name).await.unwrap().metadata.deletion_timestamp, None, "{name}");
    }
}

#[tokio::test]
async fn a_finished_job_is_deleted_when_its_ttl_is_over() {
    let managed = Managed::start().await;
    for (name, ttl) in
        [("at-once", json!(0)), ("soon", json!(2)), ("later", json!(3600)), ("never", json!(null))]
    {
        managed.create(name, ttl).await;
        end(&managed.jobs, name, "Complete", Time::now()).await;
    }
    managed.create("failed", json!(600)).await;
    end(&managed.jobs, "failed", "Failed", minutes_ago(11)).await;
    managed.create("running", json!(0)).await;
    for name in ["at-once", "failed", "soon"] {
        managed.goes(name).await;
    }
    for name in ["later", "never", "running"] {
        managed.stays(name).await;
    }
}

#[tokio::test]
async fn a_ttl_that_is_set_or_changed_after_the_end_counts_from_the_end() {
    let managed = Managed::start().await;
    managed.create("set", json!(null)).await;
    managed.create("shortened", json!(3600)).await;
    managed.create("prolonged", json!(4)).await;
    for name in ["set", "shortened"] {
        end(&managed.jobs, name, "Complete", minutes_ago(10)).await;
    }
    end(&managed.jobs, "prolonged", "Complete", Time::now()).await;
    managed.set_ttl("prolonged", 3600).await;
    managed.set_ttl("set", 60).await;
    managed.set_ttl("shortened", 60).await;
    managed.goes("set").await;
    managed.goes("shortened").await;
    // By then the first TTL of the other job is over.
    managed.create("marker", json!(5)).await;
    end(&managed.jobs, "marker", "Complete", Time::now()).await;
    managed.goes("marker").await;
    managed.stays("prolonged").await;
}

#[tokio::test]
async fn a_job_that_the_clock_says_will_finish_is_kept_until_then() {
    let managed = Managed::start().await;
    managed.create("ahead", json!(0)).await;
    end(&managed.jobs, "ahead", "Complete", minutes_ago(-60)).await;
    managed.create("marker", json!(0)).await;
    end(&managed.jobs, "marker", "Complete", Time::now()).await;
    managed.goes("marker").await;
    managed.stays("ahead").await;
}
