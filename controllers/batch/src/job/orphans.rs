//! Finalizers that no job will ever take off again: those of pods whose job is gone or has ended, or that have lost it.

use std::collections::BTreeMap;
use std::fmt;

use steersman_api::{ArcStr, LabelSelector, ObjectKey, OwnerReference, Time, Uid};
use steersman_informer::{Index, IndexValue, Lister, View};

use super::live::LiveReads;
use super::pods::TRACKING_FINALIZER;
use super::{SyncedJob, TrackedPod};
use steersman_controller::controller::{Controller, Observation, StepResult, SyncError};
use steersman_controller::plan::{Batch, OnFailure, Pace, Plan};
use steersman_controller::pod_control::{PodControl, PodRef};
use steersman_kinds::job::{JobSpec, JobStatus};

/// Where to look for orphans.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OrphanKey {
    /// At one pod.
    Pod(ObjectKey),
    /// At the pods that a job has, and those that it had and that the garbage collector has taken from it.
    Owner {
        /// Of the job and its pods.
        namespace: ArcStr,
        /// The job's.
        uid: Uid,
        /// The job's; empty if it has none that can be read.
        selector: ArcStr,
    },
}

impl fmt::Display for OrphanKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => key.fmt(f),
            Self::Owner { namespace, uid, .. } => write!(f, "{namespace}/pods of job {uid}"),
        }
    }
}

/// Takes the finalizer off orphans.
pub struct OrphanController {
    pub(super) jobs: Lister<SyncedJob>,
    pub(super) pods: Lister<TrackedPod>,
    pub(super) pods_of_controller: Index<TrackedPod>,
    pub(super) pods_without_controller: Index<TrackedPod>,
    pub(super) pod_control: PodControl,
    pub(super) live: LiveReads,
}

/// Pods with the finalizer, and what is known of their jobs.
#[derive(Debug, Default)]
pub struct Orphans {
    namespace: ArcStr,
    /// Each with the uid of the job that manages it.
    pods: Vec<(PodRef, Option<Uid>)>,
    owners: BTreeMap<Uid, Owner>,
    released: bool,
}

/// What is known of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Owner {
    /// The cache does not have it. It may be too new for the cache, so that is to be asked.
    Missing(ArcStr),
    Known(Owning),
}

/// What a job makes of its pods' finalizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owning {
    /// It, or another controller on its behalf, takes them off when it has counted the pods.
    Cares,
    /// It has counted all that it ever will, or is gone.
    DoesNot,
}

/// Something to do about orphans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrphanStep {
    /// Ask the API server about a job.
    ReadOwner(ObjectKey, Uid),
    /// Take off a finalizer.
    Release(ArcStr, PodRef),
}

impl Owning {
    pub(super) fn of(spec: &JobSpec, status: &JobStatus) -> Self {
        if spec.managed_by_other().is_none() && status.is_finished() { Self::DoesNot } else { Self::Cares }
    }
}

impl Orphans {
    fn plan(&self) -> Plan<OrphanStep> {
        let all = |steps, on_failure| {
            // Few at a time: there is no hurry, and the syncs of jobs share the client's limit.
            Plan::Act(Batch { steps, pace: Pace::Together(16), on_failure })
        };
        let missing = self.owners.iter().filter_map(|(uid, owner)| match owner {
            Owner::Missing(name) => {
                Some(OrphanStep::ReadOwner(ObjectKey::new(self.namespace.clone(), name.clone()), uid.clone()))
            }
            Owner::Known(_) => None,
        });
        let questions: Vec<_> = missing.collect();
        if !questions.is_empty() {
            return all(questions, OnFailure::Stop);
        }
        let is_orphan = |owner: &Option<Uid>| {
            let known = owner.as_ref().map(|uid| self.owners.get(uid));
            matches!(known, None | Some(Some(Owner::Known(Owning::DoesNot))))
        };
        let orphans = self.pods.iter().filter(|(_, owner)| is_orphan(owner));
        let steps: Vec<_> =
            orphans.map(|(pod, _)| OrphanStep::Release(self.namespace.clone(), pod.clone())).collect();
        if steps.is_empty() || self.released { Plan::done() } else { all(steps, OnFailure::PlanAgain) }
    }
}

impl OrphanController {
    fn find(&self, key: &OrphanKey) -> Result<Vec<View<TrackedPod>>, SyncError> {
        let unreadable =
            |error: steersman_informer::Unreadable| SyncError::Unreadable(format!("pod {}", error.key));
        Ok(match key {
            OrphanKey::Pod(key) => self.pods.get(key).map_err(unreadable)?.into_iter().collect(),
            OrphanKey::Owner { namespace, uid, selector } => {
                let selector: Option<LabelSelector> =
                    Some(selector).filter(|text| !text.is_empty()).and_then(|text| text.parse().ok());
                let owner = IndexValue::Owner(namespace.clone(), uid.clone());
                let owned = self.pods.by_index(&self.pods_of_controller, &owner);
                let free = self.pods.by_index(&self.pods_without_controller, &namespace.clone().into());
                let meant = |pod: &View<TrackedPod>| {
                    selector.as_ref().is_some_and(|selector| selector.matches(&pod.meta().labels))
                };
                let mut pods = owned.map_err(unreadable)?;
                pods.extend(free.map_err(unreadable)?.into_iter().filter(meant));
                pods
            }
        })
    }

    fn look_up(&self, namespace: &ArcStr, owner: &OwnerReference) -> Owner {
        match self.jobs.get(&ObjectKey::new(namespace.clone(), owner.name.clone())) {
            Ok(Some(job)) if job.meta().uid == owner.uid => {
                Owner::Known(Owning::of(job.get::<JobSpec>(), job.get::<JobStatus>()))
            }
            Ok(_) => Owner::Missing(owner.name.clone()),
            // It exists, and that is all that can be said of it.
            Err(_) => Owner::Known(Owning::Cares),
        }
    }
}

impl Controller for OrphanController {
    type Key = OrphanKey;
    type Observed = Orphans;
    type Step = OrphanStep;
    type Outcome = Option<(Uid, Owning)>;

    async fn observe(&self, key: &OrphanKey) -> Result<Observation<Orphans>, SyncError> {
        let mut orphans = Orphans::default();
        for pod in self.find(key)? {
            let meta = pod.meta();
            if !meta.has_finalizer(TRACKING_FINALIZER) {
                continue;
            }
            orphans.namespace = meta.key.namespace.clone();
            let owner = meta.controller();
            if let Some(owner) = owner {
                // Who else should use that finalizer is anybody's guess, but it is not ours then.
                if owner.kind != "Job" || owner.api_version != "batch/v1" {
                    continue;
                }
                let look_up = || self.look_up(&meta.key.namespace, owner);
                orphans.owners.entry(owner.uid.clone()).or_insert_with(look_up);
            }
            let pod = PodRef { name: meta.key.name.clone(), uid: meta.uid.clone() };
            orphans.pods.push((pod, owner.map(|owner| owner.uid.clone())));
        }
        if orphans.pods.is_empty() {
            return Ok(Observation::Nothing);
        }
        Ok(Observation::Ready(orphans))
    }

    fn plan(&self, orphans: &Orphans, _: Time) -> Plan<OrphanStep> {
        orphans.plan()
    }

    async fn act(&self, _: &OrphanKey, step: &OrphanStep) -> Result<Self::Outcome, SyncError> {
        match step {
            OrphanStep::ReadOwner(key, uid) => {
                let owning = self.live.owning(key, uid).await?;
                Ok(Some((uid.clone(), owning)))
            }
            OrphanStep::Release(namespace, pod) => {
                self.pod_control.remove_finalizer(namespace, pod, TRACKING_FINALIZER).await?;
                Ok(None)
            }
        }
    }

    fn absorb(&self, orphans: &mut Orphans, step: OrphanStep, result: StepResult<Self::Outcome>) {
        if let OrphanStep::Release(..) = step {
            orphans.released = true;
        }
        if let StepResult::Done(Some((uid, owning))) = result {
            orphans.owners.insert(uid, Owner::Known(owning));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, owner: Option<&str>) -> (PodRef, Option<Uid>) {
        (PodRef { name: name.into(), uid: name.into() }, owner.map(Uid::from))
    }

    #[test]
    fn a_finalizer_comes_off_only_where_no_job_cares() {
        let known = |owning| Owner::Known(owning);
        let orphans = Orphans {
            namespace: "ns".into(),
            pods: vec![pod("a", None), pod("b", Some("lives")), pod("c", Some("ended"))],
            owners: [("lives".into(), known(Owning::Cares)), ("ended".into(), known(Owning::DoesNot))].into(),
            released: false,
        };
        let Plan::Act(batch) = orphans.plan() else { panic!("nothing is planned") };
        let released: Vec<_> = batch
            .steps
            .iter()
            .map(|step| match step {
                OrphanStep::Release(_, pod) => pod.name.as_str(),
                OrphanStep::ReadOwner(..) => panic!("{step:?}"),
            })
            .collect();
        assert_eq!(released, ["a", "c"]);
        assert_eq!(Orphans { released: true, ..orphans }.plan(), Plan::done());
    }

    #[test]
    fn a_job_that_the_cache_lacks_is_asked_for_before_its_pods_are_let_go() {
        let orphans = Orphans {
            namespace: "ns".into(),
            pods: vec![pod("a", None), pod("b", Some("new"))],
            owners: [("new".into(), Owner::Missing("pi".into()))].into(),
            released: false,
        };
        let Plan::Act(batch) = orphans.plan() else { panic!("nothing is planned") };
        assert_eq!(batch.steps, [OrphanStep::ReadOwner(ObjectKey::new("ns", "pi"), "new".into())]);
    }
}
