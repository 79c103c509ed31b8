//! Syncs of jobs: where observations come from, and how steps are carried out.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use steersman_api::selector::InvalidSelector;
use steersman_api::{ArcStr, LabelSelector, Meta, ObjectKey, Time};
use steersman_client::events::{EventType, Recorder};
use steersman_informer::wire::Object;

use super::backoff::Backoffs;
use super::failure_policy::FailureAction;
use super::metrics::{Action, Metrics, Success};
use super::observed::{Observed, Suspension, group};
use super::plan::{CreationReason, Outcome, Step, decide};
use super::pods::{self, Pod, TRACKING_FINALIZER};
use super::status::{Announcement, Status, StatusWrite};
use super::wanted::Wanted;
use super::{SyncedJob, TrackedPod};
use steersman_controller::children::{Children, Claim, Family, Owns, Settled, Sight};
use steersman_controller::client::{
    Changed, Created, Deleted, StatusWriter, controller_reference, event_reference,
};
use steersman_controller::controller::{Controller, FinishedSync, Observation, StepResult, SyncError};
use steersman_controller::own_writes::Awaited;
use steersman_controller::plan::Plan;
use steersman_controller::pod_control::{PodControl, PodRef};
use steersman_controller::pod_template::{
    FieldVariable, PodDraft, PodName, indexed_name_prefix, name_prefix,
};
use steersman_kinds::containers::COMPLETION_INDEX;
use steersman_kinds::index_failures::{self, IndexFailures};
use steersman_kinds::job::{Job as CachedJob, JobSpec, JobStatus};
use steersman_kinds::pod::Pod as CachedPod;

/// Syncs jobs. See the [module](super).
pub struct JobController {
    pub(super) children: Arc<Children<SyncedJob>>,
    pub(super) pod_control: PodControl,
    pub(super) status: StatusWriter<CachedJob>,
    pub(super) recorder: Recorder,
    pub(super) metrics: Metrics,
    pub(super) backoffs: Backoffs,
    pub(super) suspension: Suspension,
}

impl Owns for SyncedJob {
    type Child = TrackedPod;

    const EMPTY_SELECTOR_SELECTS: bool = true;
    const SETTLED: Option<Settled<TrackedPod>> =
        Some(Settled { index: "pods of jobs that are not settled", is_settled: pods::is_settled });

    fn selector(job: &CachedJob) -> Result<LabelSelector, InvalidSelector> {
        group::<JobSpec>(job).selector.as_ref().ok_or_else(InvalidSelector::missing)?.to_selector()
    }

    fn is_untouched(job: &CachedJob) -> bool {
        Status::of(group::<JobStatus>(job)) == Status::default()
    }

    fn holds(pod: &Meta) -> bool {
        pod.has_finalizer(TRACKING_FINALIZER)
    }
}

impl JobController {
    fn observed(&self, family: &Family<SyncedJob>) -> Observed {
        Observed::of(family, self.backoffs.get(family.owner.meta()), self.suspension)
    }

    /// What a job's spec asks for, if the cache has the job and the controller does not refuse it.
    fn cached_wanted(&self, key: &ObjectKey) -> Option<Wanted> {
        let job = self.children.owners().get(key).ok()??;
        Wanted::of(job.get::<JobSpec>()).ok()
    }

    /// Whether a sync of the job needs its [settled](pods::is_settled) pods, too: the controller recalls the job's back-off from
    /// them, or the job has a selector of its own, which may have ceased to select one of them.
    fn needs_settled(&self, key: &ObjectKey) -> bool {
        let Ok(Some(job)) = self.children.owners().get(key) else { return false };
        let (meta, spec) = (job.meta(), job.get::<JobSpec>());
        let is_over = spec.managed_by_other().is_some() || job.get::<JobStatus>().is_finished();
        !is_over && (self.backoffs.get(meta).is_none() || !pods::selects_by_uid(spec, &meta.uid))
    }

    /// Forgets a job once the cache, too, shows that the controller will not decide on it again. As long as the cache shows an
    /// older state, the next sync must still know what this process has written.
    fn forget_if_settled(&self, key: &ObjectKey) {
        let is_settled = match self.children.owners().get(key) {
            Ok(None) => true,
            Ok(Some(job)) => {
                job.get::<JobSpec>().managed_by_other().is_some() || job.get::<JobStatus>().is_finished()
            }
            Err(_) => false,
        };
        if is_settled {
            self.children.forget(key);
            self.backoffs.forget(key);
        }
    }

    async fn create(
        &self,
        observed: &Observed,
        draft: PodDraft,
        reason: CreationReason,
    ) -> Result<Outcome, SyncError> {
        let job = &observed.job.meta;
        let owner = event_reference::<CachedJob>(job);
        let create = self.pod_control.create(&owner, &draft, &observed.job.template);
        match self.children.own_writes().write(&job.key, create).await {
            Ok(Created::Now(pod)) => {
                self.metrics.pod_created(reason, Success::Yes);
                Ok(Outcome::Created(Box::new(Pod::of(&pod, Claim::Owned, false))))
            }
            Ok(Created::NamespaceTerminating) => Ok(Outcome::NamespaceEnds),
            Ok(Created::Exists(status)) => {
                self.metrics.pod_created(reason, Success::No);
                Err(SyncError::Refused { what: format!("creating a pod of job {}", job.key), status })
            }
            Err(error) => {
                self.metrics.pod_created(reason, Success::No);
                Err(error)
            }
        }
    }

    async fn remove_finalizer(&self, job: &ObjectKey, pod: &PodRef) -> Result<Outcome, SyncError> {
        let write = self.pod_control.remove_finalizer(&job.namespace, pod, TRACKING_FINALIZER);
        let changed = self.children.own_writes().remove::<CachedPod, _>(job, &pod.uid, write).await?;
        outcome(changed, || format!("removing the finalizer of pod {}/{}", job.namespace, pod.name))
    }

    async fn delete(&self, job: &Meta, pod: &PodRef) -> Result<Outcome, SyncError> {
        let owner = event_reference::<CachedJob>(job);
        let delete = self.pod_control.delete(&owner, pod);
        match self.children.own_writes().write(&job.key, delete).await? {
            Deleted::Now(..) => Ok(Outcome::Done),
            Deleted::Gone => Ok(Outcome::Gone),
            Deleted::Conflict(status) => {
                let what = format!("deleting pod {}/{}", job.key.namespace, pod.name);
                Err(SyncError::Refused { what, status })
            }
        }
    }

    async fn write_status(&self, observed: &Observed, write: &StatusWrite) -> Result<Outcome, SyncError> {
        let job = &observed.job.meta;
        let Some(change) = write.change(job) else { return Ok(Outcome::Written(job.resource_version)) };
        let written =
            self.children.own_writes().write(&job.key, self.status.write(&job.key, &change)).await?;
        let what = || format!("writing the status of job {}", job.key);
        let Some(written) = written.or_conflict(what)? else {
            return Err(SyncError::Failed(format!("{}: the job is gone", what())));
        };
        self.backoffs.set(job, write.backoff);
        if observed.counts() {
            self.metrics.status_written(&observed.job.wanted, write);
        }
        let involved = event_reference::<CachedJob>(job);
        write.announcements.iter().for_each(|announcement| self.announce(&involved, announcement));
        Ok(Outcome::Written(written.meta().resource_version))
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

    fn term_begins(&self) {
        self.children.term_begins();
        self.backoffs.clear();
    }

    fn awaited(&self, key: &ObjectKey) -> Vec<Awaited> {
        self.children.own_writes().awaited(key)
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Observation<Observed>, SyncError> {
        let sight = if self.needs_settled(key) {
            self.children.observe(key).await?
        } else {
            self.children.observe_unsettled(key).await?
        };
        Ok(match sight {
            Sight::Family(family) => Observation::Ready(self.observed(&family)),
            Sight::Absent => Observation::Nothing,
            Sight::Behind { at_most, newly } => {
                if let Some(resource) = newly {
                    self.metrics.behind(&resource.group, &resource.resource);
                }
                Observation::Behind(at_most)
            }
        })
    }

    fn plan(&self, observed: &Observed, now: Time) -> Plan<Step> {
        let decision = decide(observed, now);
        if let Some(action) = decision.action {
            observed.action.get_or_init(|| action);
        }
        decision.plan
    }

    async fn act(&self, key: &ObjectKey, observed: &Observed, step: &Step) -> Result<Outcome, SyncError> {
        let job = &observed.job.meta;
        let meta = |pod: &PodRef| Meta {
            key: ObjectKey::new(key.namespace.clone(), pod.name.clone()),
            uid: pod.uid.clone(),
            ..Meta::default()
        };
        let what = || format!("changing the owner of a pod of job {key}");
        match step {
            Step::Refuse(refusal) => {
                let (job, message) = (event_reference::<CachedJob>(job), refusal.to_string());
                self.recorder.event(&job, EventType::Warning, refusal.reason(), message);
                Ok(Outcome::Done)
            }
            Step::Confirm => {
                let family = self.children.confirm(key).await?;
                Ok(Outcome::Reread(family.map(|family| Box::new(self.observed(&family)))))
            }
            Step::CheckAlive => self.children.check_alive(job).await.map(|()| Outcome::Done),
            Step::Adopt(pod) => {
                outcome(self.children.adopt(job, &meta(pod), &[TRACKING_FINALIZER]).await?, what)
            }
            Step::Disown(pod) => {
                outcome(self.children.release(job, &meta(pod), &[TRACKING_FINALIZER]).await?, what)
            }
            Step::Create { index, earlier, reason } => {
                self.create(observed, draft(job, *index, *earlier), *reason).await
            }
            Step::Discard(pod) => match self.remove_finalizer(key, pod).await? {
                Outcome::Gone => Ok(Outcome::Gone),
                _ => self.delete(job, pod).await,
            },
            Step::Delete(pod) => self.delete(job, pod).await,
            Step::WriteStatus(write) => self.write_status(observed, write).await,
            Step::Release(pod) => self.remove_finalizer(key, pod).await,
            Step::Ignore(pod) => {
                let ignored = self.remove_finalizer(key, pod).await?;
                self.metrics.handled_by_policy(FailureAction::Ignore);
                Ok(ignored)
            }
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
            Some(observed) => observed.counts().then_some(observed.job.wanted.completions),
            // The job is gone.
            None if sync.result.is_ok() => None,
            None => self.cached_wanted(key).map(|wanted| wanted.completions),
        };
        if let Some(completions) = completions {
            let action = sync.observed.as_ref().and_then(|observed| observed.action.get().copied());
            let action = action.unwrap_or(Action::Reconciling);
            self.metrics.synced(completions.mode(), Success::of(&sync.result), action, sync.took);
        }
        if sync.observed.is_none_or(|observed| observed.is_settled()) {
            self.forget_if_settled(key);
        }
    }
}

/// What a pod of the job has beside its template.
pub(super) fn draft(job: &Meta, index: Option<u32>, earlier: Option<IndexFailures>) -> PodDraft {
    let name = &job.key.name;
    let number = |key: &str, number: u32| (ArcStr::from(key), ArcStr::from(number.to_string()));
    let numbered = index.map(|index| number(COMPLETION_INDEX, index));
    let counted = earlier.map(|failures| number(index_failures::COUNTED, failures.counted));
    let ignored = earlier.filter(|failures| failures.ignored > 0);
    let ignored = ignored.map(|failures| number(index_failures::IGNORED, failures.ignored));
    PodDraft {
        name: PodName::Generated(
            index.map_or_else(|| name_prefix(name), |index| indexed_name_prefix(name, index)),
        ),
        owner: controller_reference::<CachedJob>(job),
        labels: numbered.iter().cloned().collect(),
        annotations: numbered.into_iter().chain(counted).chain(ignored).collect(),
        finalizers: vec![TRACKING_FINALIZER.into()],
        hostname: index.map(|index| format!("{name}-{index}").into()),
        variables: index.map(|_| index_variable()).into_iter().collect(),
    }
}

/// The environment variable from which a container reads its index.
fn index_variable() -> FieldVariable {
    FieldVariable {
        name: "JOB_COMPLETION_INDEX".into(),
        field_path: format!("metadata.labels['{COMPLETION_INDEX}']").into(),
    }
}

/// The outcome of a pod's change. A conflict fails the sync, which the runner tries again after the key's back-off.
fn outcome(changed: Changed<CachedPod>, what: impl FnOnce() -> String) -> Result<Outcome, SyncError> {
    Ok(changed.or_conflict(what)?.map_or(Outcome::Gone, |_| Outcome::Done))
}
