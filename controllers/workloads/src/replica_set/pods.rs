//! An owner's pods, as policy sees them.

use std::time::Duration;

use steersman_api::meta::Labels;
use steersman_api::{ArcStr, ObjectKey, Time, Uid};
use steersman_controller::children::Claim;
use steersman_informer::wire::{Group, Object};
use steersman_kinds::pod::{
    Containers, DeletionCost, InitContainers, Phase as PhaseGroup, Placement, Pod as CachedPod, Readiness,
    Sidecars,
};

/// A pod that an owner has, or could adopt.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pod {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Tells the pod from other pods of that name.
    pub uid: Uid,
    /// What the pod is to the owner.
    pub claim: Claim,
    /// The pod's labels.
    pub labels: Labels,
    /// The pod's phase.
    pub phase: Phase,
    /// Whether the pod is being deleted.
    pub deleting: bool,
    /// Since when the pod is ready, if it is; a ready pod may not say since when.
    pub ready: Option<Option<Time>>,
    /// The node's name. Empty if the pod has no node.
    pub node: ArcStr,
    /// How much the pod's users mind its deletion.
    pub deletion_cost: i32,
    /// The restarts of the container that was restarted most, and of such a sidecar.
    pub max_restarts: (i32, i32),
    /// When the pod was created.
    pub created: Option<Time>,
}

/// A pod's phase, in upstream's order of which active pods are deleted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// The pod has not started, or the phase is newer than this program.
    Pending,
    /// The pod's node is out of reach.
    Unknown,
    /// The pod runs.
    Running,
    /// The pod has ended, well or badly.
    Ended,
}

impl Pod {
    /// Reads a pod of a cache or an answer, of which the groups of [`super::ReplicaPod`] are kept.
    pub(super) fn of(pod: &CachedPod, claim: Claim) -> Self {
        fn group<G: Group<Kind = CachedPod>>(pod: &CachedPod) -> &G {
            G::of(pod).expect("the groups that the controller reads must be kept")
        }
        let meta = pod.meta();
        let ready = &group::<Readiness>(pod).ready;
        let (init, sidecars) = (&group::<InitContainers>(pod).statuses, &group::<Sidecars>(pod).names.0);
        let of_sidecars = init.iter().filter(|status| sidecars.contains(&status.name));
        Self {
            key: meta.key.clone(),
            uid: meta.uid.clone(),
            claim,
            labels: meta.labels.clone(),
            phase: match &*group::<PhaseGroup>(pod).phase {
                "Unknown" => Phase::Unknown,
                "Running" => Phase::Running,
                "Succeeded" | "Failed" => Phase::Ended,
                _ => Phase::Pending,
            },
            deleting: meta.is_deleting(),
            ready: ready.is_true().then_some(ready.last_transition_time),
            node: group::<Placement>(pod).node.as_arc().clone(),
            deletion_cost: group::<DeletionCost>(pod).cost.0,
            max_restarts: (
                group::<Containers>(pod).regular.max_restarts,
                of_sidecars.map(|status| status.restart_count).max().unwrap_or(0),
            ),
            created: meta.created,
        }
    }

    /// Upstream's `IsPodActive`.
    pub(super) fn is_active(&self) -> bool {
        self.phase != Phase::Ended && !self.deleting
    }

    /// Upstream's `IsPodTerminating`.
    pub(super) fn is_terminating(&self) -> bool {
        self.phase != Phase::Ended && self.deleting
    }

    /// How long the pod must still stay ready until it is available; zero if it is. `None` if the pod is not ready, or
    /// does not say since when. Upstream's `IsPodAvailable`.
    pub(super) fn available_in(&self, min_ready: Duration, now: Time) -> Option<Duration> {
        match self.ready? {
            _ if min_ready.is_zero() => Some(Duration::ZERO),
            None => None,
            Some(since) => Some(min_ready.saturating_sub(now.since(since))),
        }
    }
}
