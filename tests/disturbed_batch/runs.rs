//! CronJobs, and the Jobs of their runs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use super::record::Record;
use support::cron_jobs::{Scheduled, minutes_ago};
use support::jobs::job;

const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
/// The number of CronJobs of each policy.
const OF_EACH: usize = 5;

/// CronJobs whose runs are due when the test says so.
pub(super) struct Runs {
    cron_jobs: Vec<Run>,
    /// The names of the Jobs of all runs that were due.
    due: BTreeSet<String>,
    record: Record,
    api: Api<CronJob>,
    jobs: Api<Job>,
}

/// A CronJob, and the names of the Jobs that it must come to.
struct Run {
    cron_job: Scheduled,
    policy: &'static str,
    jobs: BTreeSet<String>,
    active: BTreeSet<String>,
}

impl Runs {
    /// Creates the CronJobs. No run is due.
    pub(super) async fn create(client: &kube::Client) -> Self {
        let barrier = json!({ "spec": job("barrier", json!({ "suspend": true })).spec });
        let record = Record::start::<Job>(client, barrier).await;
        let mut cron_jobs = Vec::new();
        for number in 0..OF_EACH * POLICIES.len() {
            let policy = POLICIES[number % POLICIES.len()];
            let name = format!("{}-{number}", policy.to_lowercase());
            let cron_job = Scheduled::create(client, &name, json!({ "concurrencyPolicy": policy })).await;
            cron_jobs.push(Run { cron_job, policy, jobs: BTreeSet::new(), active: BTreeSet::new() });
        }
        let api = Api::default_namespaced(client.clone());
        let jobs = Api::default_namespaced(client.clone());
        Self { cron_jobs, due: BTreeSet::new(), record, api, jobs }
    }

    /// Makes the first run of each CronJob due.
    pub(super) async fn begin(&mut self) {
        let run = minutes_ago(20);
        for one in &mut self.cron_jobs {
            let job = one.cron_job.run(run).await;
            self.due.insert(job.clone());
            one.jobs = [job].into();
            one.active = one.jobs.clone();
        }
    }

    /// Makes the second run of each CronJob due. The Job of the first one still runs, except where that forbids the second.
    pub(super) async fn go_on(&mut self) {
        let run = minutes_ago(10);
        for one in &mut self.cron_jobs {
            let job = one.cron_job.run(run).await;
            self.due.insert(job.clone());
            if one.policy == "Forbid" {
                for first in std::mem::take(&mut one.active) {
                    one.cron_job.end(&first, "Complete", minutes_ago(1)).await;
                }
            }
            if one.policy == "Replace" {
                (one.jobs, one.active) = (BTreeSet::new(), BTreeSet::new());
            }
            one.jobs.insert(job.clone());
            one.active.insert(job);
        }
    }

    /// The names of the Jobs that are missing or too many, and of the CronJobs whose status does not tell the active Jobs.
    pub(super) async fn left(&self) -> Vec<String> {
        let jobs = self.jobs.list(&ListParams::default()).await.expect("Jobs must be listed").items;
        let statuses = self.api.list(&ListParams::default()).await.expect("CronJobs must be listed").items;
        let mut left = Vec::new();
        for Run { cron_job, jobs: expected, active, .. } in &self.cron_jobs {
            let metas = jobs.iter().map(|job| &job.metadata);
            let owned =
                metas.filter(|meta| is_owned(meta, &cron_job.uid) && meta.deletion_timestamp.is_none());
            let owned: BTreeSet<String> = owned.filter_map(|meta| meta.name.clone()).collect();
            left.extend(owned.symmetric_difference(expected).cloned());
            let status = statuses.iter().find(|status| status.metadata.uid.as_ref() == Some(&cron_job.uid));
            let status = status.and_then(|found| found.status.clone()).unwrap_or_default();
            let told = status.active.into_iter().flatten().filter_map(|job| job.name);
            if told.collect::<BTreeSet<_>>() != *active {
                left.push(cron_job.name.clone());
            }
        }
        left
    }

    /// Checks that each run that was due has had exactly one Job.
    pub(super) async fn had_one_job_each(&self) {
        let mut jobs = BTreeMap::<String, usize>::new();
        for meta in self.record.ever().await {
            if self.cron_jobs.iter().any(|one| is_owned(&meta, &one.cron_job.uid)) {
                *jobs.entry(meta.name.expect("a Job has a name")).or_default() += 1;
            }
        }
        let due: BTreeMap<_, _> = self.due.iter().map(|job| (job.clone(), 1)).collect();
        assert_eq!(jobs, due);
    }

    /// The number of runs that were due, and of Jobs that had to be deleted in favour of other ones.
    pub(super) fn counts(&self) -> (usize, usize) {
        let kept: usize = self.cron_jobs.iter().map(|one| one.jobs.len()).sum();
        (self.due.len(), self.due.len() - kept)
    }
}

fn is_owned(meta: &ObjectMeta, owner: &str) -> bool {
    meta.owner_references.iter().flatten().any(|reference| reference.uid == owner)
}
