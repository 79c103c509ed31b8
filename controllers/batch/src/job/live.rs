//! What the API server says of a job, where the caches will not do.

use std::sync::Arc;

use steersman_api::{LabelSelector, ObjectKey, ResourceVersion, Uid};
use steersman_informer::wire::{Group, Object};

use super::orphans::Owning;
use steersman_controller::client::Client;
use steersman_controller::controller::SyncError;
use steersman_kinds::job::{Job, JobSpec, JobStatus};
use steersman_kinds::pod::Pod;

/// Reads of the API server that are sure to show everything written before them.
#[derive(Clone)]
pub(super) struct LiveReads {
    pub(super) jobs: Client<Job>,
    pub(super) pods: Client<Pod>,
}

impl LiveReads {
    /// A job as it is now; `None` if there is none of that name.
    pub(super) async fn job(&self, key: &ObjectKey) -> Result<Option<Arc<Job>>, SyncError> {
        self.jobs.get(key).await
    }

    /// That the job is still the same, and not being deleted: only then may it adopt.
    pub(super) async fn check_alive(&self, key: &ObjectKey, uid: &Uid) -> Result<(), SyncError> {
        let failed = |why: String| Err(SyncError::Failed(format!("can't adopt pods: {why}")));
        match self.job(key).await? {
            None => failed(format!("job {key} is gone")),
            Some(job) if job.meta().uid != *uid => {
                failed(format!("original Job {key} is gone: got uid {}, wanted {uid}", job.meta().uid))
            }
            Some(job) if job.meta().is_deleting() => failed(format!("job {key} is being deleted")),
            Some(_) => Ok(()),
        }
    }

    /// What a job of this uid makes of its pods.
    pub(super) async fn owning(&self, key: &ObjectKey, uid: &Uid) -> Result<Owning, SyncError> {
        let job = self.job(key).await?.filter(|job| job.meta().uid == *uid);
        let groups = job.as_ref().map(|job| (JobSpec::of(job), JobStatus::of(job)));
        Ok(match groups {
            Some((Some(spec), Some(status))) => Owning::of(spec, status),
            Some(_) => Owning::Cares,
            None => Owning::DoesNot,
        })
    }

    /// All pods that a selector means, and the version of that list.
    pub(super) async fn pods(
        &self,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Result<(Vec<Arc<Pod>>, ResourceVersion), SyncError> {
        let listed = self.pods.list(namespace, selector).await?;
        Ok((listed.objects, listed.as_of))
    }

    /// A version of jobs that is no older than this call.
    pub(super) async fn version_of_jobs(&self) -> Result<ResourceVersion, SyncError> {
        self.jobs.resource().version().await
    }
}
