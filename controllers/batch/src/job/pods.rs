//! A job's pods, as policy sees them.

use std::cmp::Reverse;

use steersman_api::condition::ConditionStatus;
use steersman_api::{ArcStr, OwnerReference, Time, Uid};
use steersman_informer::View;
use steersman_informer::wire::{Group, Object};

use super::TrackedPod;
use super::wanted::Replacement;
use steersman_controller::children::Claim;
use steersman_controller::pod_control::PodRef;
use steersman_kinds::index_failures::IndexFailures;
use steersman_kinds::job::JobSpec;
use steersman_kinds::pod::{
    Completion, Containers, EarlierFailures, InitContainers, Phase as PhaseGroup, Placement,
    Pod as CachedPod, Readiness, Sidecars,
};
use steersman_kinds::pod_failure::PodFailure;

/// The finalizer of pods that the job's status has not counted yet.
pub(super) const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// The label by which a job selects its pods, unless the user has written a selector. Its value is the job's uid. The API server
/// adds it to the job's selector and to its pod template.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

/// A pod that a job owns, or could.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// The name, within the job's namespace.
    pub name: ArcStr,
    /// Tells the pod from other pods of that name.
    pub uid: Uid,
    /// What the pod is to the job.
    pub claim: Claim,
    /// The phase.
    pub phase: Phase,
    /// Whether the pod is being deleted.
    pub deletion: Deletion,
    /// Whether the pod has the finalizer, and nobody has removed it since.
    pub tracked: bool,
    /// Since when the pod is ready, if it is. A ready pod may not say since when.
    pub ready: Option<Option<Time>>,
    /// Whether the pod has a node.
    pub scheduled: bool,
    /// The largest number of restarts of a container, and of a sidecar.
    pub max_restarts: (i32, i32),
    /// The number of restarts of all containers.
    pub restarts: i32,
    /// When the API server created the pod.
    pub created: Option<Time>,
    /// When the pod finished, as far as it tells. Meaningless for a pod that has not finished.
    pub finished_at: Time,
    /// The completion index.
    pub index: Option<u32>,
    /// The failures of earlier pods of the same index.
    pub earlier: IndexFailures,
    /// How the pod failed. The pod failure policy reads it.
    pub failure: PodFailure,
}

/// The phase of a pod, in upstream's order of deletion of active pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No container has started.
    Pending,
    /// The node does not answer, or the phase is unknown to this program.
    Unknown,
    /// Containers run.
    Running,
    /// All containers have succeeded.
    Succeeded,
    /// All containers have ended, and one has failed.
    Failed,
}

/// Whether a pod is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The pod is not being deleted.
    No,
    /// The pod is being deleted.
    Asked,
    /// This sync has deleted the pod.
    JustAsked,
}

impl Pod {
    /// What policy reads of a pod. `has_gone`: the pod has lost its finalizer since, see `Family::has_gone`.
    ///
    /// # Panics
    /// If a group was not kept.
    pub(super) fn of(pod: &CachedPod, claim: Claim, has_gone: bool) -> Self {
        fn group<G: Group<Kind = CachedPod>>(pod: &CachedPod) -> &G {
            G::of(pod).expect("the groups that the job controller reads must be kept")
        }
        let meta = pod.meta();
        let containers = &group::<Containers>(pod).regular;
        let init = &group::<InitContainers>(pod).statuses;
        let sidecars = &group::<Sidecars>(pod).names.0;
        let ready = &group::<Readiness>(pod).ready;
        let of_sidecars = init.iter().filter(|status| sidecars.contains(&status.name));
        let all = init.iter().map(|status| status.restart_count);
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
            tracked: meta.has_finalizer(TRACKING_FINALIZER) && !has_gone,
            ready: ready.is_true().then_some(ready.last_transition_time),
            scheduled: !group::<Placement>(pod).node.is_empty(),
            max_restarts: (
                containers.max_restarts,
                of_sidecars.map(|status| status.restart_count).max().unwrap_or(0),
            ),
            restarts: all.fold(containers.restarts, i32::saturating_add),
            created: meta.created,
            finished_at: finished_at(pod),
            index: group::<Completion>(pod).index.0,
            earlier: group::<EarlierFailures>(pod).of_index,
            failure: group::<PodFailure>(pod).clone(),
        }
    }

    /// The pod's name in a write.
    pub(super) fn reference(&self) -> PodRef {
        PodRef { name: self.name.clone(), uid: self.uid.clone() }
    }

    /// Whether the pod has ended.
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

    /// Whether the pod counts as failed. Unless the job waits for the ends of its pods, one that is being deleted does, since a
    /// pod whose node is gone may never fail. Upstream: `isPodFailed`.
    pub(super) fn has_failed(&self, replacement: Replacement) -> bool {
        let is_lost = || self.deletion == Deletion::Asked && self.phase != Phase::Succeeded;
        self.phase == Phase::Failed || replacement == Replacement::TerminatingOrFailed && is_lost()
    }

    /// Whether policy decides about this state of the pod as it does about `other`. The order in which active pods would be
    /// deleted may differ: a sync that deletes pods looks at their latest states.
    fn is_decided_like(&self, other: &Self) -> bool {
        let counts = |pod: &Self| {
            let end = pod.is_terminal().then_some((pod.phase, pod.finished_at));
            (end, pod.deletion, pod.tracked, pod.ready.is_some(), pod.restarts, pod.index, pod.earlier)
        };
        counts(self) == counts(other) && (!self.is_terminal() || self.failure == other.failure)
    }

    /// The order in which active pods are deleted: the pod that has got least far first. Upstream's `ActivePods`, except that
    /// a pod that can't be counted comes before all others, and that the name breaks ties.
    pub(super) fn deletion_rank(&self) -> impl Ord + use<> {
        let since = self.ready.map(|since| since.map(Reverse));
        (
            (self.tracked, self.scheduled, self.phase),
            since,
            (Reverse(self.max_restarts), self.created.map(Reverse), self.name.clone()),
        )
    }
}

/// Whether a change of a pod can change what the controller decides. Most changes on a pod's way to its end do not.
pub(super) fn matters(old: &View<TrackedPod>, new: &View<TrackedPod>) -> bool {
    let (before, after) = (old.meta(), new.meta());
    before.uid != after.uid
        || before.labels != after.labels
        || before.controller() != after.controller()
        || !Pod::of(old.object(), Claim::Owned, false).is_decided_like(&Pod::of(
            new.object(),
            Claim::Owned,
            false,
        ))
}

/// Whether a pod has succeeded, has lost its finalizer, and has the label by which its job selects it. Only the job's back-off
/// depends on such a pod. (A failed pod may still match the pod failure policy.)
pub(super) fn is_settled(pod: &View<TrackedPod>) -> bool {
    let meta = pod.meta();
    let is_selected = |owner: &OwnerReference| {
        meta.labels.get(CONTROLLER_UID).is_some_and(|uid| owner.uid == Uid::from(&**uid))
    };
    // A pod that can't be read has no phase.
    PhaseGroup::of(pod.object()).is_some_and(|phase| &*phase.phase == "Succeeded")
        && !meta.has_finalizer(TRACKING_FINALIZER)
        && meta.controller().is_some_and(is_selected)
}

/// Whether the job of this uid selects its pods by the label [`CONTROLLER_UID`] alone.
pub(super) fn selects_by_uid(job: &JobSpec, uid: &Uid) -> bool {
    job.selector.as_ref().is_some_and(|selector| {
        let mut labels = selector.match_labels.iter();
        let only = labels.next().filter(|_| labels.next().is_none() && selector.match_expressions.is_empty());
        only.is_some_and(|(key, value)| key == CONTROLLER_UID && Uid::from(&**value) == *uid)
    })
}

/// When the last of a pod's containers ended; else when the pod ceased to be ready; else when it was deleted; else when it was
/// created.
fn finished_at(pod: &CachedPod) -> Time {
    let meta = pod.meta();
    let containers = || {
        let (init, sidecars) = (InitContainers::of(pod)?, Sidecars::of(pod)?);
        let mut last = Containers::of(pod)?.regular.finished_at();
        for sidecar in init.statuses.iter().filter(|status| sidecars.names.0.contains(&status.name)) {
            last = last.max(Some(sidecar.finished_at()?));
        }
        last
    };
    let unready = || {
        let ready = &Readiness::of(pod)?.ready;
        ready.last_transition_time.filter(|_| ready.status == Some(ConditionStatus::False))
    };
    let deleted = || {
        let grace = meta.deletion_grace().unwrap_or(0);
        Some(Time::from_seconds(meta.deleted()?.seconds().saturating_sub(grace)))
    };
    containers().or_else(unready).or_else(deleted).or(meta.created).unwrap_or(Time::from_seconds(0))
}
