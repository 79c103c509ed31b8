//! A ReplicaSet of a Deployment, as policy sees it.

use steersman_api::{ArcStr, ObjectKey, ResourceVersion, Time, Uid};
use steersman_controller::children::Claim;
use steersman_informer::wire::{Group, Object};
use steersman_kinds::annotation::Annotations;
use steersman_kinds::replica_set::{
    ReplicaSet as CachedReplicaSet, ReplicaSetAnnotations, ReplicaSetSpec, ReplicaSetStatus,
};

use super::annotations::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use super::conditions::{Condition, REPLICA_FAILURE};

/// A ReplicaSet that a Deployment has, or could adopt.
#[derive(Clone, Debug)]
pub(super) struct ReplicaSet {
    /// Identifies the ReplicaSet in this version.
    pub reference: SetRef,
    /// Counts changes of the spec.
    pub generation: i64,
    /// When the ReplicaSet was created.
    pub created: Option<Time>,
    /// Whether the ReplicaSet is being deleted.
    pub deleting: bool,
    /// What the ReplicaSet is to the Deployment.
    pub claim: Claim,
    /// The annotations.
    pub annotations: Annotations,
    /// The number of pods that the ReplicaSet wants.
    pub replicas: i32,
    /// How long a pod must be ready until it counts as available, in seconds.
    pub min_ready_seconds: i32,
    /// Whether the pod template equals the Deployment's but for the label `pod-template-hash`.
    pub has_template: bool,
    /// Whether a pod of the ReplicaSet has not ended. Only looked up for the strategy `Recreate`.
    pub runs_pods: bool,
    /// The status that the ReplicaSets' controller has reported.
    pub status: SetStatus,
}

/// Identifies one version of a ReplicaSet. A write on its grounds fails if the ReplicaSet has changed since, so that no
/// decision is carried out that goes by an outdated status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetRef {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Tells the ReplicaSet from others of that name.
    pub uid: Uid,
    /// The version.
    pub version: ResourceVersion,
}

/// What the status of a ReplicaSet says.
#[derive(Clone, Debug, Default)]
pub(super) struct SetStatus {
    /// The number of active pods.
    pub replicas: i32,
    /// The number of ready pods.
    pub ready: i32,
    /// The number of available pods.
    pub available: i32,
    /// The number of pods that are being deleted. `None` if the ReplicaSets' controller does not count them.
    pub terminating: Option<i32>,
    /// The generation that the status describes.
    pub observed_generation: i64,
    /// Why pods could not be created or deleted, as a condition of the Deployment.
    pub failure: Option<Condition>,
}

impl ReplicaSet {
    /// Reads a ReplicaSet of a cache or an answer, of which the groups of [`super::DeploymentReplicaSet`] are kept.
    pub(super) fn of(object: &CachedReplicaSet, claim: Claim, has_template: bool, runs_pods: bool) -> Self {
        fn group<G: Group<Kind = CachedReplicaSet>>(object: &CachedReplicaSet) -> &G {
            G::of(object).expect("the groups that the controller reads must be kept")
        }
        let (meta, spec) = (object.meta(), group::<ReplicaSetSpec>(object));
        let status = group::<ReplicaSetStatus>(object);
        let failure = status.conditions.iter().find(|condition| condition.kind == REPLICA_FAILURE);
        Self {
            reference: SetRef {
                key: meta.key.clone(),
                uid: meta.uid.clone(),
                version: meta.resource_version,
            },
            generation: meta.generation,
            created: meta.created,
            deleting: meta.is_deleting(),
            claim,
            annotations: group::<ReplicaSetAnnotations>(object).annotations.clone(),
            replicas: spec.replicas.unwrap_or(1),
            min_ready_seconds: spec.min_ready_seconds,
            has_template,
            runs_pods,
            status: SetStatus {
                replicas: status.replicas,
                ready: status.ready_replicas,
                available: status.available_replicas,
                terminating: status.terminating_replicas,
                observed_generation: status.observed_generation,
                failure: failure.map(Condition::of_replica_set),
            },
        }
    }

    /// The name.
    pub(super) fn name(&self) -> &ArcStr {
        &self.reference.key.name
    }

    /// Orders ReplicaSets from the oldest to the youngest. Upstream's `ReplicaSetsByCreationTimestamp`.
    pub(super) fn age_order(&self, other: &Self) -> std::cmp::Ordering {
        (self.created, self.name()).cmp(&(other.created, other.name()))
    }

    /// Whether the ReplicaSet wants pods. Upstream's `FilterActiveReplicaSets`.
    pub(super) fn is_active(&self) -> bool {
        self.replicas > 0
    }

    /// Whether the status describes the current size.
    pub(super) fn is_synced(&self) -> bool {
        self.status.observed_generation >= self.generation
    }

    /// The number of pods that are available, of those that the ReplicaSet shall keep: the status may describe a time before
    /// the ReplicaSet was scaled down.
    pub(super) fn available(&self) -> i32 {
        self.status.available.min(self.replicas)
    }

    /// The number of pods that are active or shall become so. A ReplicaSet may have more pods than it wants, which its
    /// controller has yet to delete.
    pub(super) fn present(&self) -> i32 {
        self.replicas.max(self.status.replicas)
    }

    /// The revision number: 0 if the ReplicaSet has none, `None` if it is no number. Upstream's `Revision`.
    pub(super) fn revision(&self) -> Option<i64> {
        self.annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
    }

    /// The Deployment's `replicas` when the ReplicaSet was last scaled, if that is known.
    pub(super) fn desired_replicas(&self) -> Option<i32> {
        self.count(DESIRED_REPLICAS)
    }

    /// The greatest number of pods that the Deployment could have when the ReplicaSet was last scaled, if that is known.
    pub(super) fn max_replicas(&self) -> Option<i32> {
        self.count(MAX_REPLICAS)
    }

    /// Upstream's `getNonNegativeInt32FromAnnotation`: digits alone, without a sign.
    fn count(&self, annotation: &str) -> Option<i32> {
        let text = self.annotations.get(annotation)?;
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    }
}
