//! A StatefulSet's pods, as policy sees them.

use std::time::Duration;

use steersman_api::meta::Labels;
use steersman_api::{ArcStr, ObjectKey, Time, Uid};
use steersman_controller::children::Claim;
use steersman_informer::wire::{Group, Object};
use steersman_kinds::pod::{Phase as PhaseGroup, Pod as CachedPod, Readiness};
use steersman_kinds::pod_volumes::{PodVolumes, VolumeUse};

use super::identity::{POD_NAME, REVISION, ordinal};

/// A pod that a set has, or could adopt.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pod {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Tells the pod from other pods of that name.
    pub uid: Uid,
    /// What the pod is to the set.
    pub claim: Claim,
    /// The pod's number in the set. `None` if its name has none that is valid: then the set ignores it.
    pub ordinal: Option<i32>,
    /// The pod's labels.
    pub labels: Labels,
    /// The pod's phase.
    pub phase: Phase,
    /// Whether the pod is being deleted.
    pub deleting: bool,
    /// Since when the pod is ready, if it is; a ready pod may not say since when.
    pub ready: Option<Option<Time>>,
    /// The pod's volumes that are claims: the volume's name, and the claim's.
    pub volumes: Vec<(ArcStr, ArcStr)>,
}

/// A pod's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The pod has not started.
    Pending,
    /// The pod runs.
    Running,
    /// The pod has ended, well or badly.
    Ended,
    /// The pod's node is out of reach, or the phase is newer than this program.
    Unknown,
}

impl Pod {
    /// Reads a pod of a cache or an answer, of which the groups of [`super::StatefulPod`] are kept.
    pub(super) fn of(pod: &CachedPod, set: &str, claim: Claim) -> Self {
        fn group<G: Group<Kind = CachedPod>>(pod: &CachedPod) -> &G {
            G::of(pod).expect("the groups that the controller reads must be kept")
        }
        let meta = pod.meta();
        let ready = &group::<Readiness>(pod).ready;
        let claims = group::<PodVolumes>(pod).volumes.0.iter().filter_map(|volume| match volume {
            VolumeUse::Claim { volume, claim } => Some((volume.as_arc().clone(), claim.clone())),
            _ => None,
        });
        Self {
            key: meta.key.clone(),
            uid: meta.uid.clone(),
            claim,
            ordinal: ordinal(set, &meta.key.name),
            labels: meta.labels.clone(),
            phase: match &*group::<PhaseGroup>(pod).phase {
                "Pending" | "" => Phase::Pending,
                "Running" => Phase::Running,
                "Succeeded" | "Failed" => Phase::Ended,
                _ => Phase::Unknown,
            },
            deleting: meta.is_deleting(),
            ready: ready.is_true().then_some(ready.last_transition_time),
            volumes: claims.collect(),
        }
    }

    /// The name of the pod's revision. Empty if the pod has none.
    pub(super) fn revision(&self) -> &str {
        self.labels.get(REVISION).map_or("", ArcStr::as_str)
    }

    /// Upstream's `isRunningAndReady`.
    pub(super) fn is_running_and_ready(&self) -> bool {
        self.phase == Phase::Running && self.ready.is_some()
    }

    /// How long the pod must still stay ready until it is available; zero if it is. `None` if the pod is not ready, or does
    /// not say since when. Upstream's `IsPodAvailable`.
    pub(super) fn available_in(&self, min_ready: Duration, now: Time) -> Option<Duration> {
        match self.ready? {
            _ if min_ready.is_zero() => Some(Duration::ZERO),
            None => None,
            Some(since) => Some(min_ready.saturating_sub(now.since(since))),
        }
    }

    /// Whether the pod has been ready for long enough.
    pub(super) fn is_available(&self, min_ready: Duration, now: Time) -> bool {
        self.available_in(min_ready, now) == Some(Duration::ZERO)
    }

    /// Whether the pod has the label with its own name. Upstream's `identityMatches`, of a pod that has an ordinal.
    pub(super) fn has_identity(&self) -> bool {
        self.labels.get(POD_NAME) == Some(&self.key.name)
    }

    /// Whether the pod's volumes include these claims. Upstream's `storageMatches`.
    pub(super) fn has_storage<'a>(&self, claims: impl IntoIterator<Item = (&'a ArcStr, ArcStr)>) -> bool {
        claims.into_iter().all(|(volume, claim)| {
            self.volumes.iter().any(|(name, mounted)| name == volume && *mounted == claim)
        })
    }
}
