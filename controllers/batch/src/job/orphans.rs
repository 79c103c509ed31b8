//! Removes the finalizers of orphans: pods whose job is gone or has finished, or that no controller manages any more.

use std::fmt;
use std::sync::Arc;

use steersman_api::{ArcStr, Meta, ObjectKey, OwnerReference, Time, Uid};
use steersman_informer::IndexValue;
use steersman_informer::wire::Object;

use super::SyncedJob;
use super::observed::group;
use super::pods::TRACKING_FINALIZER;
use steersman_controller::children::{Children, is_child_of};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_controller::pod_control::{PodControl, PodRef};
use steersman_kinds::job::{Job, JobSpec, JobStatus};

/// Where to look for orphans.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OrphanKey {
    /// At a pod that had no managing owner when the mapping queued it.
    Pod(ObjectKey),
    /// At all pods of a job. One key serves all of them, so that the controller reads the job once.
    Job(ObjectKey, Uid),
}

impl OrphanKey {
    /// The namespace of the pods.
    fn namespace(&self) -> &ArcStr {
        match self {
            Self::Pod(key) | Self::Job(key, _) => &key.namespace,
        }
    }
}

impl fmt::Display for OrphanKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => key.fmt(f),
            Self::Job(key, uid) => write!(f, "pods of job {key} ({uid})"),
        }
    }
}

/// Removes the finalizers of orphans.
pub struct OrphanController {
    pub(super) children: Arc<Children<SyncedJob>>,
    pub(super) pod_control: PodControl,
}

/// Pods with the finalizer that all have the same managing owner, or none.
#[derive(Debug)]
pub struct Orphans {
    namespace: ArcStr,
    pods: Vec<PodRef>,
    /// The job that owns all of the pods. `None` if no controller manages them.
    owner: Option<Owner>,
    released: bool,
}

/// What the controller knows of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Owner {
    /// The cache does not have the job. The job may be too new for the cache, so only the API server can tell.
    Missing(ObjectKey, Uid),
    Known(Owning),
}

/// Whether a job still needs the finalizers of its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owning {
    /// It does: a controller removes them when it has counted the pods.
    Cares,
    /// It does not: the job has finished, or is gone.
    DoesNot,
}

/// An action of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrphanStep {
    /// Read a job from the API server.
    ReadOwner(ObjectKey, Uid),
    /// Remove the finalizer of a pod in this namespace.
    Release(ArcStr, PodRef),
}

impl Owning {
    pub(super) fn of(spec: &JobSpec, status: &JobStatus) -> Self {
        if spec.managed_by_other().is_none() && status.is_finished() { Self::DoesNot } else { Self::Cares }
    }
}

impl Orphans {
    fn plan(&self) -> Plan<OrphanStep> {
        match &self.owner {
            Some(Owner::Missing(job, uid)) => Plan::step(OrphanStep::ReadOwner(job.clone(), uid.clone())),
            Some(Owner::Known(Owning::Cares)) => Plan::done(),
            _ if self.pods.is_empty() || self.released => Plan::done(),
            None | Some(Owner::Known(Owning::DoesNot)) => {
                let release = |pod: &PodRef| OrphanStep::Release(self.namespace.clone(), pod.clone());
                let steps = self.pods.iter().map(release).collect();
                // A few at a time, since the syncs of jobs share the client's limit.
                Plan::Act(Batch { steps, pace: Pace::Together(16), on_failure: OnFailure::PlanAgain })
            }
        }
    }
}

impl OrphanController {
    /// The pods of a key that have the finalizer, and their managing owner. Reads metadata only, so that a pod whose body can't
    /// be read loses its finalizer as well.
    fn find(&self, key: &OrphanKey) -> (Vec<PodRef>, Option<OwnerReference>) {
        let (mut pods, mut owner) = (Vec::new(), None);
        let mut see = |pod: &Meta| {
            let controller = pod.controller();
            // Another controller may use the finalizer for its own pods.
            let is_ours = |owner: &OwnerReference| owner.kind == "Job" && owner.api_version == "batch/v1";
            if pod.has_finalizer(TRACKING_FINALIZER) && controller.is_none_or(is_ours) {
                pods.push(PodRef { name: pod.key.name.clone(), uid: pod.uid.clone() });
                owner = controller.cloned();
            }
        };
        match key {
            OrphanKey::Pod(key) => self.children.children().meta(key).iter().for_each(see),
            OrphanKey::Job(job, uid) => {
                let value = IndexValue::Owner(job.namespace.clone(), uid.clone());
                self.children.children().for_each_meta_by_index(&self.children.unsettled(), &value, |pod| {
                    if is_child_of::<Job>(pod, job, uid) {
                        see(pod);
                    }
                });
            }
        }
        (pods, owner)
    }

    fn look_up(&self, namespace: &ArcStr, owner: &OwnerReference) -> Owner {
        let key = ObjectKey::new(namespace.clone(), owner.name.clone());
        match self.children.owners().get(&key) {
            Ok(Some(job)) if job.meta().uid == owner.uid => Owner::Known(Owning::of(job.get(), job.get())),
            Ok(_) => Owner::Missing(key, owner.uid.clone()),
            // The job can't be read, but it exists.
            Err(_) => Owner::Known(Owning::Cares),
        }
    }

    /// Whether the job of this uid needs its pods' finalizers, by a live read.
    async fn read_owner(&self, key: &ObjectKey, uid: &Uid) -> Result<Owning, SyncError> {
        let job = self.children.owner_client().get(key).await?.filter(|job| job.meta().uid == *uid);
        Ok(job.map_or(Owning::DoesNot, |job| Owning::of(group(&job), group(&job))))
    }
}

impl Controller for OrphanController {
    type Key = OrphanKey;
    type Observed = Orphans;
    type Step = OrphanStep;
    type Outcome = Option<Owning>;

    async fn observe(&self, key: &OrphanKey) -> Result<Observation<Orphans>, SyncError> {
        let (pods, owner) = self.find(key);
        if pods.is_empty() {
            return Ok(Observation::Nothing);
        }
        let namespace = key.namespace();
        let owner = owner.map(|owner| self.look_up(namespace, &owner));
        Ok(Observation::Ready(Orphans { namespace: namespace.clone(), pods, owner, released: false }))
    }

    fn plan(&self, orphans: &Orphans, _: Time) -> Plan<OrphanStep> {
        orphans.plan()
    }

    async fn act(
        &self,
        _: &OrphanKey,
        _: &Self::Observed,
        step: &OrphanStep,
    ) -> Result<Self::Outcome, SyncError> {
        match step {
            OrphanStep::ReadOwner(job, uid) => self.read_owner(job, uid).await.map(Some),
            OrphanStep::Release(namespace, pod) => {
                let what = || format!("removing the finalizer of pod {namespace}/{}", pod.name);
                let removed = self.pod_control.remove_finalizer(namespace, pod, TRACKING_FINALIZER).await?;
                removed.or_conflict(what)?;
                Ok(None)
            }
        }
    }

    fn absorb(&self, orphans: &mut Orphans, step: OrphanStep, result: StepResult<Self::Outcome>) {
        if let OrphanStep::Release(..) = step {
            orphans.released = true;
        }
        if let StepResult::Done(Some(owning)) = result {
            orphans.owner = Some(Owner::Known(owning));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps planned for one pod of such an owner.
    fn planned(owner: Option<Owner>) -> Vec<OrphanStep> {
        let pods = vec![PodRef { name: "a".into(), uid: "u".into() }];
        match (Orphans { namespace: "ns".into(), pods, owner, released: false }).plan() {
            Plan::Act(batch) => batch.steps,
            Plan::Done { .. } => Vec::new(),
        }
    }

    #[test]
    fn a_finalizer_comes_off_only_where_no_job_cares() {
        let release = OrphanStep::Release("ns".into(), PodRef { name: "a".into(), uid: "u".into() });
        for owner in [None, Some(Owner::Known(Owning::DoesNot))] {
            assert_eq!(planned(owner.clone()), std::slice::from_ref(&release), "{owner:?}");
        }
        assert_eq!(planned(Some(Owner::Known(Owning::Cares))), []);
    }

    #[test]
    fn a_job_that_the_cache_lacks_is_asked_for_before_its_pods_are_let_go() {
        let job = ObjectKey::new("ns", "pi");
        let missing = Owner::Missing(job.clone(), "job".into());
        assert_eq!(planned(Some(missing)), [OrphanStep::ReadOwner(job, "job".into())]);
    }
}
