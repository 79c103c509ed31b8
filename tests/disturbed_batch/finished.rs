//! Finished Jobs with a TTL.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use steersman_api::Time;

use support::cron_jobs::{end, minutes_ago};
use support::eventually;
use support::jobs::{self, job};

/// Finished Jobs. Some must be deleted, and the others must stay. No garbage collector runs, so that the test can still read a Job
/// that is being deleted.
pub(super) struct Finished {
    client: kube::Client,
    jobs: Api<Job>,
    /// The names of the Jobs that must be deleted, with the times at which their TTLs are over.
    going: BTreeMap<String, Time>,
    /// The names of the Jobs that must stay.
    staying: BTreeSet<String>,
}

impl Finished {
    pub(super) fn of(client: &kube::Client) -> Self {
        let jobs = Api::default_namespaced(client.clone());
        Self { client: client.clone(), jobs, going: BTreeMap::new(), staying: BTreeSet::new() }
    }

    async fn create(&self, name: &str, ttl: i64) {
        jobs::create(&self.client, &job(name, json!({ "ttlSecondsAfterFinished": ttl }))).await;
    }

    /// Creates a Job that ended at this time and must be deleted when its TTL is over.
    async fn create_going(&mut self, name: String, ttl: i64, ended: Time) {
        self.create(&name, ttl).await;
        end(&self.jobs, &name, "Complete", ended).await;
        self.going.insert(name, after(ended, ttl));
    }

    /// Creates a Job that ended at this time and must stay.
    async fn create_staying(&mut self, name: String, ttl: i64, ended: Time) {
        self.create(&name, ttl).await;
        end(&self.jobs, &name, "Complete", ended).await;
        self.staying.insert(name);
    }

    async fn set_ttl(&self, name: &str, seconds: i64) {
        let patch = Patch::Merge(json!({ "spec": { "ttlSecondsAfterFinished": seconds } }));
        self.jobs.patch(name, &PatchParams::default(), &patch).await.expect("a Job must be patched");
    }

    /// Creates Jobs whose TTLs are over, or will be soon, and others.
    pub(super) async fn begin(&mut self) {
        for number in 0..16 {
            self.create_going(format!("over-{number}"), 60, minutes_ago(10)).await;
        }
        for seconds in 1..=4 {
            self.create_going(format!("soon-{seconds}"), seconds, Time::now()).await;
            self.create_staying(format!("later-{seconds}"), 3600, minutes_ago(10)).await;
        }
        self.create("running", 0).await;
        self.staying.insert("running".to_owned());
    }

    /// Shortens the TTLs of some of the Jobs that stay.
    pub(super) async fn go_on(&mut self) {
        for name in ["later-1", "later-2"] {
            // The end of a Job is in its status still.
            let ended = self.finished_at(name).await;
            self.set_ttl(name, 60).await;
            self.staying.remove(name);
            self.going.insert(name.to_owned(), after(ended, 60));
        }
        for number in 0..8 {
            self.create_going(format!("second-{number}"), 60, minutes_ago(10)).await;
        }
    }

    /// Ends Jobs whose TTLs are over at once. Before a lagging cache can show that, some of them get a longer TTL, and in
    /// place of others there are new Jobs, which still run.
    pub(super) async fn change_before_the_cache_shows(&mut self) {
        let names = |kind: &str| [1, 2, 3].map(|number| format!("{kind}-{number}"));
        for name in names("prolonged").into_iter().chain(names("replaced")) {
            self.create_staying(name, 60, minutes_ago(10)).await;
        }
        for name in names("prolonged") {
            self.set_ttl(&name, 3600).await;
        }
        for name in names("replaced") {
            self.jobs.delete(&name, &DeleteParams::background()).await.expect("a Job must be deleted");
            self.create(&name, 0).await;
        }
    }

    async fn finished_at(&self, name: &str) -> Time {
        let status = self.jobs.get(name).await.expect("the Job must be there").status;
        status.and_then(|status| status.completion_time).expect("it has ended").0.into()
    }

    /// The names of the Jobs that must be deleted and are not being deleted yet.
    pub(super) async fn left(&self) -> Vec<String> {
        let jobs = self.jobs.list(&ListParams::default()).await.expect("Jobs must be listed").items;
        let metas = jobs.into_iter().map(|job| job.metadata);
        let deleted = metas.filter(|meta| meta.deletion_timestamp.is_some()).filter_map(|meta| meta.name);
        let deleted: BTreeSet<String> = deleted.collect();
        self.going.keys().filter(|name| !deleted.contains(*name)).cloned().collect()
    }

    /// Checks that no Job was deleted before its TTL was over, and none that must stay.
    pub(super) async fn went_in_time(&mut self) {
        // When these are being deleted, the running manager has dealt with the other Jobs.
        for name in ["marker-1", "marker-2"] {
            self.create_going(name.to_owned(), 0, Time::now()).await;
            eventually(&format!("{name} is deleted"), || async {
                self.left().await.is_empty().then_some(())
            })
            .await;
        }
        for (name, over) in &self.going {
            let deleted = self.deleted_at(name).await;
            assert!(deleted >= Some(*over), "{name}: {deleted:?}, not {over:?}");
        }
        for name in &self.staying {
            assert_eq!(self.deleted_at(name).await, None, "{name}");
        }
    }

    async fn deleted_at(&self, name: &str) -> Option<Time> {
        let metadata = self.jobs.get(name).await.expect("the Job must be there").metadata;
        metadata.deletion_timestamp.map(|time| time.0.into())
    }

    /// The number of Jobs that had to be deleted.
    pub(super) fn count(&self) -> usize {
        self.going.len()
    }
}

fn after(time: Time, seconds: i64) -> Time {
    Time::from_seconds(time.seconds() + seconds)
}
