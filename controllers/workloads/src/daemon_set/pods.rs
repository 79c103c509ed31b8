//! The pods of a DaemonSet, reduced to what the controller decides on.

use std::cmp::Reverse;
use std::time::Duration;

use steersman_api::{ArcStr, ObjectKey, Time, Uid};
use steersman_controller::children::Claim;
use steersman_informer::wire::{Group, Object};
use steersman_kinds::pod::{Phase as PhaseGroup, Pinning, Placement, Pod as CachedPod, Readiness};

use super::{HASH_LABEL, TEMPLATE_GENERATION_LABEL};

/// A pod that a DaemonSet has, or could adopt.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pod {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Tells the pod from other pods of that name.
    pub uid: Uid,
    /// What the pod is to the DaemonSet.
    pub claim: Claim,
    /// The hash of the pod's revision, from its label. Empty if the pod lacks the label.
    pub hash: ArcStr,
    /// The number of the pod's template, from its label. Empty if the pod lacks the label.
    pub generation: ArcStr,
    /// The node on which the pod runs, or on which alone it can be scheduled. Empty if the pod is bound to no node and can be
    /// scheduled anywhere.
    pub node: ArcStr,
    /// Whether the scheduler has bound the pod to its node.
    pub bound: bool,
    /// How the pod has ended, if it has.
    pub end: Option<End>,
    /// Whether the pod is being deleted.
    pub deleting: bool,
    /// Since when the pod is ready, if it is; a ready pod may not say since when.
    pub ready: Option<Option<Time>>,
    /// When the pod was created.
    pub created: Option<Time>,
}

/// How a pod has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The pod's phase is `Failed`.
    Failed,
    /// The pod's phase is `Succeeded`.
    Succeeded,
}

/// Identifies a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodRef {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Tells the pod from other pods of that name.
    pub uid: Uid,
}

impl Pod {
    /// Reads a pod of a cache or an answer, of which the groups of [`super::kinds::DaemonPod`] are kept.
    pub(super) fn of(pod: &CachedPod, claim: Claim) -> Self {
        fn group<G: Group<Kind = CachedPod>>(pod: &CachedPod) -> &G {
            G::of(pod).expect("the groups that the controller reads must be kept")
        }
        let meta = pod.meta();
        let label = |key| meta.labels.get(key).cloned().unwrap_or_default();
        let bound_to = group::<Placement>(pod).node.as_arc();
        let bound = !bound_to.is_empty();
        let ready = &group::<Readiness>(pod).ready;
        Self {
            key: meta.key.clone(),
            uid: meta.uid.clone(),
            claim,
            hash: label(HASH_LABEL),
            generation: label(TEMPLATE_GENERATION_LABEL),
            node: if bound { bound_to.clone() } else { group::<Pinning>(pod).pinned.0.as_arc().clone() },
            bound,
            end: match &*group::<PhaseGroup>(pod).phase {
                "Failed" => Some(End::Failed),
                "Succeeded" => Some(End::Succeeded),
                _ => None,
            },
            deleting: meta.is_deleting(),
            ready: ready.is_true().then_some(ready.last_transition_time),
            created: meta.created,
        }
    }

    /// Whether the controller has nothing more to do with the pod: it has ended and is being deleted. Only finalizers, or the
    /// kubelet, keep it.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some() && self.deleting
    }

    /// The key of the order in which the pods of a node count: bound ones first, then older ones. Upstream's
    /// `podByCreationTimestampAndPhase`.
    pub(super) fn seniority(&self) -> impl Ord + '_ {
        (Reverse(self.bound), self.created, &self.key.name)
    }

    /// Whether the pod is of the current revision, or of the template of this number. Upstream's `IsPodUpdated`.
    pub(super) fn is_updated(&self, hash: &str, generation: Option<i64>) -> bool {
        (!hash.is_empty() && self.hash == *hash)
            || generation.is_some_and(|generation| self.generation == *generation.to_string())
    }

    /// Whether the pod has been ready for this long. Upstream's `IsPodAvailable`.
    pub(super) fn is_available(&self, min_ready: Duration, now: Time) -> bool {
        self.available_in(min_ready, now) == Some(Duration::ZERO)
    }

    /// How long the pod must still stay ready until it is available; zero if it is. `None` if the pod is not ready, or does
    /// not say since when.
    pub(super) fn available_in(&self, min_ready: Duration, now: Time) -> Option<Duration> {
        match self.ready? {
            _ if min_ready.is_zero() => Some(Duration::ZERO),
            None => None,
            Some(since) => Some(min_ready.saturating_sub(now.since(since))),
        }
    }

    /// Names the pod.
    pub(super) fn reference(&self) -> PodRef {
        PodRef { key: self.key.clone(), uid: self.uid.clone() }
    }
}
