//! A job's pods, as policy sees them.

use std::cmp::Reverse;

use steersman_api::condition::ConditionStatus;
use steersman_api::{ArcStr, LabelSelector, Meta, ObjectKey, OwnerReference, Time, Uid};
use steersman_informer::wire::{Group, Object};

use steersman_controller::pod_control::PodRef;
use steersman_kinds::pod::{
    Completion, Containers, Phase as PhaseGroup, Placement, Pod as CachedPod, Readiness, Sidecars,
};

/// While it is on a pod, the pod has not been counted, and can't go.
pub(super) const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// A pod that a job owns, or could.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Its name, within the job's namespace.
    pub name: ArcStr,
    /// Which pod of that name.
    pub uid: Uid,
    /// What it is to the job.
    pub claim: Claim,
    /// How far it is.
    pub phase: Phase,
    /// Whether it is being deleted.
    pub deletion: Deletion,
    /// It has the finalizer, and it was not this process that took it off.
    pub tracked: bool,
    /// Since when it is ready, if it is; a ready pod may not say since when.
    pub ready: Option<Option<Time>>,
    /// It has a node.
    pub scheduled: bool,
    /// Of the container that was restarted most, and of such a sidecar.
    pub max_restarts: (i32, i32),
    /// Of all containers.
    pub restarts: i32,
    /// When it was made.
    pub created: Option<Time>,
    /// When it finished, if it has: the best guess there is.
    pub finished_at: Time,
    /// Its completion index.
    pub index: Option<u32>,
}

/// What a pod is to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Its own.
    Owned,
    /// Nobody's, and the job's selector means it: to be adopted.
    Orphan,
    /// Its own, but the selector does not mean it any more: to be released.
    Stray,
}

/// How far a pod is, in upstream's order of which active ones go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It has not begun.
    Pending,
    /// Its node is out of reach, or something newer.
    Unknown,
    /// It runs.
    Running,
    /// It ended well.
    Succeeded,
    /// It ended badly.
    Failed,
}

/// Whether a pod is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// It is not.
    No,
    /// It is.
    Asked,
    /// By this sync: nobody has seen it so yet.
    JustAsked,
}

/// Whether the managing owner of a pod is this job, by namespace, kind, name and uid, as upstream's
/// `PodControllerIndexKey`. The uid alone would not do: the API server checks no owner reference, so that a pod of any
/// namespace can carry any uid.
pub(super) fn is_pod_of(pod: &Meta, job: &ObjectKey, uid: &Uid) -> bool {
    let is_job = |owner: &OwnerReference| owner.uid == *uid && owner.kind == "Job" && owner.name == job.name;
    pod.key.namespace == job.namespace && pod.controller().is_some_and(is_job)
}

impl Claim {
    /// What a pod is to the job of this metadata; `None` if it is none of its business. As upstream's `ClaimObject`: a job
    /// that is being deleted neither adopts nor releases, and a pod that is being deleted is not adopted.
    pub(super) fn of(job: &Meta, selector: &LabelSelector, pod: &Meta) -> Option<Self> {
        let selected = selector.matches(&pod.labels);
        match pod.controller() {
            Some(_) if !is_pod_of(pod, &job.key, &job.uid) => None,
            Some(_) if selected => Some(Self::Owned),
            Some(_) if job.is_deleting() => None,
            Some(_) => Some(Self::Stray),
            None => {
                let adoptable = selected
                    && !job.is_deleting()
                    && !pod.is_deleting()
                    && pod.key.namespace == job.key.namespace;
                adoptable.then_some(Self::Orphan)
            }
        }
    }
}

impl Pod {
    /// Of a cached pod, or one just read. All of its groups must have been kept.
    pub(super) fn of(pod: &CachedPod, claim: Claim, condemned: bool) -> Self {
        fn group<G: Group<Kind = CachedPod>>(pod: &CachedPod) -> &G {
            G::of(pod).expect("the groups that the job controller reads must be kept")
        }
        let meta = pod.meta();
        let containers: &Containers = group(pod);
        let sidecars = &group::<Sidecars>(pod).names.0;
        let ready = &group::<Readiness>(pod).ready;
        let of_sidecars = containers.init.iter().filter(|status| sidecars.contains(&status.name));
        let all = containers.init.iter().map(|status| status.restart_count);
        Self {
            name: meta.key.name.clone(),
            uid: meta.uid.clone(),
            claim,
            phase: match &*group::<PhaseGroup>(pod).phase {
                "Pending" | "" => Phase::Pending,
                "Running" => Phase::Running,
                "Succeeded" => Phase::Succeeded,
                "Failed" => Phase::Failed,
                _ => Phase::Unknown,
            },
            deletion: if meta.is_deleting() { Deletion::Asked } else { Deletion::No },
            tracked: meta.has_finalizer(TRACKING_FINALIZER) && !condemned,
            ready: ready.is_true().then_some(ready.last_transition_time),
            scheduled: !group::<Placement>(pod).node.is_empty(),
            max_restarts: (
                containers.regular.max_restarts,
                of_sidecars.map(|status| status.restart_count).max().unwrap_or(0),
            ),
            restarts: all.fold(containers.regular.restarts, i32::saturating_add),
            created: meta.created,
            finished_at: finished_at(pod),
            index: group::<Completion>(pod).index.0,
        }
    }

    /// How to name it in a write.
    pub(super) fn reference(&self) -> PodRef {
        PodRef { name: self.name.clone(), uid: self.uid.clone() }
    }

    /// It has ended for good.
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Upstream's `IsPodActive`.
    pub(super) fn is_active(&self) -> bool {
        !self.is_terminal() && self.deletion == Deletion::No
    }

    /// Upstream's `IsPodTerminating`.
    pub(super) fn is_terminating(&self) -> bool {
        !self.is_terminal() && self.deletion != Deletion::No
    }

    /// It counts as failed: also if it is being deleted, since an orphan of a node that is gone may never get so far as to fail.
    pub(super) fn has_failed(&self) -> bool {
        self.phase == Phase::Failed || self.deletion == Deletion::Asked && self.phase != Phase::Succeeded
    }

    /// Which of several active pods goes first: the one that has got least far. Upstream's `ActivePods`, except that a pod
    /// that can't be counted goes before all others, and that the last word is the name.
    pub(super) fn deletion_rank(&self) -> impl Ord + use<> {
        let since = self.ready.map(|since| since.map(Reverse));
        (
            (self.tracked, self.scheduled, self.phase),
            since,
            (Reverse(self.max_restarts), self.created.map(Reverse), self.name.clone()),
        )
    }
}

/// When a pod's containers had all ended, else when it ceased to be ready, else when its deletion was asked for, else when
/// it was made.
fn finished_at(pod: &CachedPod) -> Time {
    let meta = pod.meta();
    let containers = || {
        let (containers, sidecars) = (Containers::of(pod)?, Sidecars::of(pod)?);
        let mut last = containers.regular.finished_at();
        for sidecar in containers.init.iter().filter(|status| sidecars.names.0.contains(&status.name)) {
            last = last.max(Some(sidecar.finished_at()?));
        }
        last
    };
    let unready = || {
        let ready = &Readiness::of(pod)?.ready;
        ready.last_transition_time.filter(|_| ready.status == Some(ConditionStatus::False))
    };
    let deleted = || {
        let grace = meta.deletion_grace.unwrap_or(0);
        Some(Time::from_seconds(meta.deleted?.seconds().saturating_sub(grace)))
    };
    containers().or_else(unready).or_else(deleted).or(meta.created).unwrap_or(Time::from_seconds(0))
}
