//! What the API server says of a job, where the caches will not do.

use std::sync::Arc;

use futures::TryStreamExt;
use http::Method;
use steersman_api::{FieldSelector, LabelSelector, ObjectKey, ResourceVersion, Uid};
use steersman_informer::list_watch::{
    ApiListerWatcher, Error as ListError, Freshness, ListEvent, ListRequest, ListerWatcher, Scope,
};
use steersman_informer::wire::{Decoded, Group, Object, Selection};

use super::orphans::Owning;
use super::{SyncedJob, TrackedPod};
use steersman_controller::call::Call;
use steersman_controller::controller::SyncError;
use steersman_kinds::job::{Job, JobSpec, JobStatus};
use steersman_kinds::pod::Pod;

/// Pods a page.
const PAGE: u32 = 500;

/// Reads of the API server that are sure to show everything written before them.
#[derive(Clone)]
pub(super) struct LiveReads {
    pub(super) client: kube::Client,
}

impl LiveReads {
    /// A job as it is now; `None` if there is none of that name.
    pub(super) async fn job(&self, key: &ObjectKey) -> Result<Option<Arc<Job>>, SyncError> {
        let call = Call {
            what: format!("reading job {key}"),
            method: Method::GET,
            path: job_path(key),
            content: None,
        };
        match call.send(&self.client).await {
            Ok(answer) => Ok(Some(Arc::new(answer.object(SyncedJob::GROUPS)?))),
            Err(error) if error.is("NotFound") => Ok(None),
            Err(error) => Err(error),
        }
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
        let what = || format!("listing the pods of {selector} in {namespace}");
        let resource = Pod::resource().expect("pods must have a resource");
        let scope =
            Scope { namespace: namespace.into(), labels: selector.clone(), fields: FieldSelector::default() };
        let source = ApiListerWatcher::<Pod>::new(self.client.clone(), resource, scope);
        source.keep(TrackedPod::GROUPS);
        let failed = |error: ListError| match error {
            ListError::Status(status) => SyncError::Refused { what: what(), status },
            error => SyncError::Failed(format!("{}: {error}", what())),
        };
        let request = ListRequest { freshness: Freshness::MostRecent, page: Some(PAGE) };
        let mut events = source.list(request).await.map_err(failed)?;
        let (mut pods, mut as_of) = (Vec::new(), ResourceVersion::ANY);
        while let Some(event) = events.try_next().await.map_err(failed)? {
            match event {
                ListEvent::Item(Decoded::Good(pod)) => pods.push(Arc::new(pod)),
                ListEvent::Item(Decoded::Unreadable(pod, _)) => {
                    return Err(SyncError::Unreadable(format!("pod {}", pod.meta().key)));
                }
                ListEvent::Item(Decoded::Lost(error)) => {
                    return Err(SyncError::Failed(format!("{}: {error}", what())));
                }
                ListEvent::Complete(version) => as_of = version,
            }
        }
        Ok((pods, as_of))
    }

    /// A version of jobs that is no older than this call.
    pub(super) async fn version_of_jobs(&self) -> Result<ResourceVersion, SyncError> {
        let call = Call {
            what: "reading the version of jobs".to_owned(),
            method: Method::GET,
            path: "/apis/batch/v1/jobs?limit=1".to_owned(),
            content: None,
        };
        call.send(&self.client).await?.list_version()
    }
}

/// Where a job is served.
pub(super) fn job_path(key: &ObjectKey) -> String {
    format!("/apis/batch/v1/namespaces/{}/jobs/{}", key.namespace, key.name)
}
