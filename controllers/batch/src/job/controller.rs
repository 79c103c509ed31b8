//! Syncs of jobs: where observations come from, and how steps are carried out.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use steersman_api::{ArcStr, LabelSelector, Meta, ObjectKey, OwnerReference, Time, Uid};
use steersman_client::events::{EventType, Recorder};
use steersman_informer::wire::{Group, Object, Opaque};
use steersman_informer::{Index, IndexValue, Lister, Unreadable, View};

use super::backoff::Backoff;
use super::live::LiveReads;
use super::memory::Memory;
use super::metrics::{Action, Metrics, Success};
use super::observed::{Done, Grounds, Job, Observed};
use super::plan::{CreationReason, Decision, Outcome, Step, decide};
use super::pods::{Claim, Pod, TRACKING_FINALIZER, is_pod_of};
use super::status::{Announcement, Status, StatusWrite};
use super::wanted::{Completions, Wanted};
use super::{SyncedJob, TrackedPod};
use steersman_controller::client::{
    Changed, Client, Created, Deleted, Patch, Wrote, controller_reference, event_reference,
};
use steersman_controller::controller::{Controller, FinishedSync, Observation, StepResult, SyncError};
use steersman_controller::own_writes::{Freshness, Gone, Listing, OwnWrites};
use steersman_controller::plan::Plan;
use steersman_controller::pod_control::{PodControl, PodRef};
use steersman_controller::pod_template::{
    FieldVariable, PodDraft, PodName, indexed_name_prefix, name_prefix,
};
use steersman_kinds::containers::COMPLETION_INDEX;
use steersman_kinds::job::{Job as CachedJob, JobSpec, JobStatus, JobTemplate};
use steersman_kinds::pod::Pod as CachedPod;

/// How long a cache that does not show an own write is waited for, before the API server is asked.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// How long a sync is put off at a time: a list may bring the cache up to date without a change of this job's pods that
/// would wake it.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Syncs jobs. See the [module](super).
pub struct JobController {
    pub(super) jobs: Lister<SyncedJob>,
    pub(super) pods: Lister<TrackedPod>,
    pub(super) pods_of_controller: Index<TrackedPod>,
    pub(super) pods_without_controller: Index<TrackedPod>,
    pub(super) client: Client<CachedJob>,
    pub(super) live: LiveReads,
    pub(super) pod_control: PodControl,
    pub(super) recorder: Recorder,
    pub(super) metrics: Metrics,
    pub(super) own_writes: OwnWrites,
    pub(super) memory: Memory,
}

/// A job and its pods, from wherever.
struct Found {
    job: Arc<CachedJob>,
    pods: Vec<Arc<CachedPod>>,
    /// Of the pods, those that are shown with a finalizer that is off.
    gone: Gone,
}

impl JobController {
    /// What the caches hold.
    fn find(&self, key: &ObjectKey) -> Result<Option<Found>, SyncError> {
        let Some(job) = self.jobs.get(key).map_err(|e| SyncError::Unreadable(format!("job {}", e.key)))?
        else {
            return Ok(None);
        };
        let unreadable = |pod: Unreadable| SyncError::Unreadable(format!("pod {}", pod.key));
        let uid = &job.meta().uid;
        let owned = |pod: &Meta| is_pod_of(pod, key, uid);
        let owner = IndexValue::Owner(key.namespace.clone(), uid.clone());
        let mut all =
            self.pods.by_index_where(&self.pods_of_controller, &owner, owned).map_err(unreadable)?;
        // Of the pods that nobody manages only those matter that it would adopt.
        let selector = selector(job.object()).ok();
        let adoptable = |pod: &Meta| selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels));
        let namespace = key.namespace.clone().into();
        let free = self.pods.by_index_where(&self.pods_without_controller, &namespace, adoptable);
        all.extend(free.map_err(unreadable)?);
        let pods: Vec<_> = all.iter().map(|pod| Arc::clone(View::object(pod))).collect();
        let held = held(&pods);
        let gone = self.own_writes.gone::<CachedPod>(key, |uid| held.contains(uid));
        Ok(Some(Found { job: Arc::clone(job.object()), pods, gone }))
    }

    /// How many pods of a job must succeed, if the cache has the job and the controller does not refuse it.
    fn cached_completions(&self, key: &ObjectKey) -> Option<Completions> {
        let job = self.jobs.get(key).ok()??;
        Wanted::of(spec(job.object())).ok().map(|wanted| wanted.completions)
    }

    /// What the API server holds.
    async fn read(&self, key: &ObjectKey) -> Result<Option<Found>, SyncError> {
        let Some(job) = self.live.job(key).await? else { return Ok(None) };
        let selector = selector(&job)?;
        let (mut pods, as_of) = self.live.pods(&key.namespace, &selector).await?;
        pods.retain(|pod| Claim::of(job.meta(), &selector, pod.meta()).is_some());
        let newest = pods.iter().map(|pod| pod.meta().resource_version).max().unwrap_or_default();
        let held: HashSet<Uid> = held(&pods).into_iter().cloned().collect();
        let versions = [Wrote::of::<CachedJob>(job.meta().resource_version), Wrote::of::<CachedPod>(newest)];
        self.own_writes.reread(key, versions, |uid| held.contains(uid));
        self.own_writes.listed::<CachedPod>(key, Listing { as_of, held });
        self.memory.be_sure(key, &job.meta().uid);
        Ok(Some(Found { job, pods, gone: Gone::default() }))
    }

    /// An observation from what was found, if there may be anything to do.
    async fn consider(&self, key: &ObjectKey, found: Option<Found>) -> Result<Option<Observed>, SyncError> {
        let job = found.as_ref().map(|found| &found.job);
        if job.is_none_or(|job| spec(job).managed_by_other().is_some() || status(job).is_finished()) {
            self.own_writes.forget(key);
            self.memory.forget(key);
            return Ok(None);
        }
        let Some(Found { job, pods, gone }) = found else { return Ok(None) };
        let (wanted, refusal) = match Wanted::of(spec(&job)) {
            Ok(wanted) => (Some(wanted), None),
            Err(refusal) => (None, Some(refusal)),
        };
        let status = Status::of(status(&job));
        let selector = selector(&job)?;
        let pods: Vec<Pod> = pods
            .iter()
            .filter_map(|pod| {
                let Meta { uid, resource_version, .. } = pod.meta();
                let claim = Claim::of(job.meta(), &selector, pod.meta())?;
                // A stray is in no list: those go by the selector.
                let past = claim != Claim::Stray && gone.is_past(uid, *resource_version);
                Some(Pod::of(pod, claim, past || gone.is_condemned(uid)))
            })
            .collect();
        let remembered = self.memory.backoff(key, &job.meta().uid);
        Ok(Some(Observed {
            backoff: remembered.unwrap_or_else(|| Backoff::recall(&status, &pods)),
            grounds: self.grounds(job.meta(), &status).await?,
            job: Job {
                meta: job.meta().clone(),
                wanted: wanted.unwrap_or_default(),
                status,
                template: template(&job).clone(),
            },
            refusal,
            pods,
            done: Done::default(),
            action: OnceLock::new(),
        }))
    }

    /// Whether the caches can be trusted about a job. They can if its first state was written since this process leads: then
    /// nobody else has ever acted on it.
    async fn grounds(&self, job: &Meta, status: &Status) -> Result<Grounds, SyncError> {
        if self.memory.grounds(&job.key, &job.uid) == Grounds::Sure {
            return Ok(Grounds::Sure);
        }
        if *status != Status::default() {
            return Ok(Grounds::Unsure);
        }
        if self.memory.horizon().is_none() {
            self.memory.set_horizon(self.live.version_of_jobs().await?);
        }
        if self.memory.horizon().is_none_or(|horizon| job.resource_version <= horizon) {
            return Ok(Grounds::Unsure);
        }
        self.memory.be_sure(&job.key, &job.uid);
        Ok(Grounds::Sure)
    }

    async fn create(
        &self,
        key: &ObjectKey,
        job: &Job,
        index: Option<u32>,
        reason: CreationReason,
    ) -> Result<Outcome, SyncError> {
        let (owner, draft) = (event_reference::<CachedJob>(&job.meta), draft(&job.meta, index));
        let create = self.pod_control.create(&owner, &draft, &job.template);
        match self.own_writes.write(key, create).await {
            Ok(Created::Now(pod)) => {
                self.metrics.pod_created(reason, Success::Yes);
                Ok(Outcome::Created(Box::new(Pod::of(&pod, Claim::Owned, false))))
            }
            Ok(Created::NamespaceTerminating) => Ok(Outcome::NamespaceEnds),
            Ok(Created::Exists(status)) => {
                self.metrics.pod_created(reason, Success::No);
                Err(SyncError::Refused { what: format!("creating a pod of job {key}"), status })
            }
            Err(error) => {
                self.metrics.pod_created(reason, Success::No);
                Err(error)
            }
        }
    }

    /// Changes a pod, and remembers it.
    async fn change(
        &self,
        key: &ObjectKey,
        write: impl Future<Output = Result<Changed<CachedPod>, SyncError>>,
    ) -> Result<Outcome, SyncError> {
        outcome(self.own_writes.write(key, write).await?, || format!("changing a pod of job {key}"))
    }

    async fn remove_finalizer(&self, key: &ObjectKey, pod: &PodRef) -> Result<Outcome, SyncError> {
        let write = self.pod_control.remove_finalizer(&key.namespace, pod, TRACKING_FINALIZER);
        let changed = self.own_writes.remove::<CachedPod, _>(key, &pod.uid, write).await?;
        outcome(changed, || format!("removing the finalizer of pod {}/{}", key.namespace, pod.name))
    }

    async fn delete(&self, key: &ObjectKey, job: &Meta, pod: &PodRef) -> Result<Outcome, SyncError> {
        let owner = event_reference::<CachedJob>(job);
        match self.own_writes.write(key, self.pod_control.delete(&owner, pod)).await? {
            Deleted::Now(..) => Ok(Outcome::Done),
            Deleted::Gone => Ok(Outcome::Gone),
            Deleted::Conflict(status) => {
                let what = format!("deleting pod {}/{}", key.namespace, pod.name);
                Err(SyncError::Refused { what, status })
            }
        }
    }

    async fn write_status(
        &self,
        key: &ObjectKey,
        observed: &Observed,
        write: &StatusWrite,
    ) -> Result<Outcome, SyncError> {
        let patch = Patch::Merge(write.patch());
        let changed = self.own_writes.write(key, self.client.patch_status(key, &patch)).await?;
        let what = format!("writing the status of job {key}");
        let version = match changed {
            Changed::Now(job) => job.meta().resource_version,
            Changed::Gone => return Err(SyncError::Failed(format!("{what}: the job is gone"))),
            Changed::Conflict(status) => return Err(SyncError::Refused { what, status }),
        };
        self.memory.set_backoff(key, &write.uid, write.backoff);
        if let Some(completions) = observed.counted_completions() {
            self.metrics.status_written(completions, write);
        }
        let job = event_reference::<CachedJob>(&observed.job.meta);
        write.announcements.iter().for_each(|announcement| self.announce(&job, announcement));
        Ok(Outcome::Written(version))
    }

    fn announce(&self, job: &ObjectReference, announcement: &Announcement) {
        let say = |kind, reason: &str, message: &str| {
            self.recorder.event(job, kind, reason.to_owned(), message);
        };
        match announcement {
            Announcement::Suspended => say(EventType::Normal, "Suspended", "Job suspended"),
            Announcement::Resumed => say(EventType::Normal, "Resumed", "Job resumed"),
            Announcement::TooManySucceededPods => say(
                EventType::Warning,
                "TooManySucceededPods",
                "Too many succeeded pods running after completion count reached",
            ),
            Announcement::Complete(_) => say(EventType::Normal, "Completed", "Job completed"),
            Announcement::Failed(reason, message) => say(EventType::Warning, reason, message),
        }
    }
}

impl Controller for JobController {
    type Key = ObjectKey;
    type Observed = Observed;
    type Step = Step;
    type Outcome = Outcome;

    /// Others have led since: nothing that was learnt before holds.
    fn term_begins(&self) {
        self.own_writes.clear();
        self.memory.clear();
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let found = match self.own_writes.check(key) {
            Freshness::Behind { resource, newly } => {
                if newly {
                    self.metrics.behind(&resource.group, &resource.resource);
                }
                return Ok(Observation::Behind(LOOK_AGAIN));
            }
            Freshness::Doubtful => self.read(key).await?,
            Freshness::Current => self.find(key)?,
        };
        Ok(self.consider(key, found).await?.map_or(Observation::Nothing, Observation::Ready))
    }

    fn plan(&self, observed: &Observed, now: Time) -> Plan<Step> {
        let Decision { plan, action } = decide(observed, now);
        if let Some(action) = action {
            // Pods are managed once a sync, so that the first one counts.
            observed.action.get_or_init(|| action);
        }
        plan
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        let job = &observed.job;
        match step {
            Step::Refuse(refusal) => {
                let (job, message) = (event_reference::<CachedJob>(&job.meta), refusal.to_string());
                self.recorder.event(&job, EventType::Warning, refusal.reason(), message);
                Ok(Outcome::Done)
            }
            Step::Confirm => {
                let found = self.read(key).await?;
                Ok(Outcome::Reread(self.consider(key, found).await?.map(Box::new)))
            }
            Step::CheckAlive => {
                self.live.check_alive(key, &job.meta.uid).await?;
                Ok(Outcome::Done)
            }
            Step::Adopt(pod) => {
                let owner = owner(&job.meta);
                self.change(key, self.pod_control.adopt(&key.namespace, pod, &owner, TRACKING_FINALIZER))
                    .await
            }
            Step::Disown(pod) => {
                let write = self.pod_control.release(&key.namespace, pod, &job.meta.uid, TRACKING_FINALIZER);
                self.change(key, write).await
            }
            Step::Create { index, reason } => self.create(key, job, *index, *reason).await,
            Step::Discard(pod) => match self.remove_finalizer(key, pod).await? {
                Outcome::Gone => Ok(Outcome::Gone),
                _ => self.delete(key, &job.meta, pod).await,
            },
            Step::Delete(pod) => self.delete(key, &job.meta, pod).await,
            Step::WriteStatus(write) => self.write_status(key, observed, write).await,
            Step::Release(pod) => self.remove_finalizer(key, pod).await,
        }
    }

    fn ends_batch(&self, outcome: &Outcome) -> bool {
        matches!(outcome, Outcome::NamespaceEnds)
    }

    fn absorb(&self, observed: &mut Observed, step: Step, result: StepResult<Outcome>) {
        observed.absorb(step, result);
    }

    fn finished(&self, key: &ObjectKey, sync: FinishedSync<'_, Observed>) {
        let completions = match &sync.observed {
            Some(observed) => observed.counted_completions(),
            // There was nothing to do.
            None if sync.result.is_ok() => None,
            None => self.cached_completions(key),
        };
        if let Some(completions) = completions {
            let action = sync.observed.and_then(|observed| observed.action.into_inner());
            let action = action.unwrap_or(Action::Reconciling);
            self.metrics.synced(completions.mode(), Success::of(&sync.result), action, sync.took);
        }
    }
}

/// The pods that have the finalizer.
fn held(pods: &[Arc<CachedPod>]) -> HashSet<&Uid> {
    let held = pods.iter().map(|pod| pod.meta()).filter(|pod| pod.has_finalizer(TRACKING_FINALIZER));
    held.map(|pod| &pod.uid).collect()
}

/// What a pod of the job has beside its template.
pub(super) fn draft(job: &Meta, index: Option<u32>) -> PodDraft {
    let name = &job.key.name;
    let numbered = index.map(|index| (ArcStr::from(COMPLETION_INDEX), ArcStr::from(index.to_string())));
    PodDraft {
        name: PodName::Generated(
            index.map_or_else(|| name_prefix(name), |index| indexed_name_prefix(name, index)),
        ),
        owner: owner(job),
        labels: numbered.iter().cloned().collect(),
        annotations: numbered.into_iter().collect(),
        finalizers: vec![TRACKING_FINALIZER.into()],
        hostname: index.map(|index| format!("{name}-{index}").into()),
        variables: index.map(|_| index_variable()).into_iter().collect(),
    }
}

/// Tells a container its index by the pod's label.
fn index_variable() -> FieldVariable {
    FieldVariable {
        name: "JOB_COMPLETION_INDEX".into(),
        field_path: format!("metadata.labels['{COMPLETION_INDEX}']").into(),
    }
}

/// What a change of a pod came to. A conflict fails the sync, which the runner tries again after its back-off.
fn outcome(changed: Changed<CachedPod>, what: impl FnOnce() -> String) -> Result<Outcome, SyncError> {
    Ok(changed.or_conflict(what)?.map_or(Outcome::Gone, |_| Outcome::Done))
}

fn template(job: &CachedJob) -> &Opaque {
    &JobTemplate::of(job).expect("the template of a synced job must be kept").template
}

fn owner(job: &Meta) -> OwnerReference {
    controller_reference::<CachedJob>(job)
}

fn spec(job: &CachedJob) -> &JobSpec {
    JobSpec::of(job).expect("the spec of a synced job must be kept")
}

fn status(job: &CachedJob) -> &JobStatus {
    JobStatus::of(job).expect("the status of a synced job must be kept")
}

fn selector(job: &CachedJob) -> Result<LabelSelector, SyncError> {
    let key = &job.meta().key;
    let Some(selector) = &spec(job).selector else {
        return Err(SyncError::Failed(format!("job {key} has no selector")));
    };
    selector.to_selector().map_err(|error| SyncError::Failed(format!("job {key}: {error}")))
}
