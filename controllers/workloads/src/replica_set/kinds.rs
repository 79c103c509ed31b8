//! The two kinds of owners.

use std::time::Duration;

use steersman_api::LabelSelector;
use steersman_api::meta::LabelMap;
use steersman_api::selector::InvalidSelector;
use steersman_controller::children::Owns;
use steersman_informer::keep;
use steersman_informer::wire::{Group, Object};
use steersman_kinds::replica_set::{self, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus, ReplicaSetTemplate};
use steersman_kinds::replication_controller::{
    self, ReplicationController, ReplicationControllerSpec, ReplicationControllerStatus,
    ReplicationControllerTemplate,
};

use super::ReplicaPod;
use super::observed::Owner;
use super::status::Status;

/// A kind of owners that keep a number of equal pods.
pub(super) trait Replicates: Owns<Child = ReplicaPod> {
    /// The name of the controller's client and of the source of its events.
    const COMPONENT: &'static str;
    /// The name of the controller's queue in metrics.
    const QUEUE: &'static str;
    /// Whether `stale_sync_skips_total` counts the kind's syncs. Upstream counts those of ReplicaSets only.
    const COUNTS_STALE_SYNCS: bool;
    /// Whether the kind's status has the field `terminatingReplicas`.
    const HAS_TERMINATING_REPLICAS: bool;

    /// What policy reads of an owner.
    fn owner(object: &Self::Kind) -> Owner;
}

keep! {
    /// What the controller reads of a ReplicaSet.
    pub struct SyncedReplicaSet: ReplicaSet =>
        ReplicaSetSpec, ReplicaSetTemplate, replica_set::TemplateLabels, ReplicaSetStatus
}

keep! {
    /// What the controller reads of a ReplicationController.
    pub struct SyncedReplicationController: ReplicationController =>
        ReplicationControllerSpec, ReplicationControllerTemplate, replication_controller::TemplateLabels,
        ReplicationControllerStatus
}

fn group<G: Group>(object: &G::Kind) -> &G {
    G::of(object).expect("the groups that the controller reads must be kept")
}

fn number(replicas: Option<i32>) -> usize {
    usize::try_from(replicas.unwrap_or(1)).unwrap_or(0)
}

fn seconds(seconds: i32) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

impl Owns for SyncedReplicaSet {
    type Child = ReplicaPod;

    fn selector(owner: &ReplicaSet) -> Result<LabelSelector, InvalidSelector> {
        group::<ReplicaSetSpec>(owner).selector.clone().unwrap_or_default().to_selector()
    }

    fn is_untouched(owner: &ReplicaSet) -> bool {
        group::<ReplicaSetStatus>(owner).observed_generation == 0
    }
}

impl Replicates for SyncedReplicaSet {
    const COMPONENT: &'static str = "replicaset-controller";
    const QUEUE: &'static str = "replicaset";
    const COUNTS_STALE_SYNCS: bool = true;
    const HAS_TERMINATING_REPLICAS: bool = true;

    fn owner(object: &ReplicaSet) -> Owner {
        let (spec, status) = (group::<ReplicaSetSpec>(object), group::<ReplicaSetStatus>(object));
        Owner {
            meta: object.meta().clone(),
            replicas: number(spec.replicas),
            min_ready: seconds(spec.min_ready_seconds),
            template_labels: group::<replica_set::TemplateLabels>(object).template.metadata.labels.clone(),
            template: group::<ReplicaSetTemplate>(object).template.clone(),
            status: Status {
                replicas: status.replicas,
                fully_labeled_replicas: status.fully_labeled_replicas,
                ready_replicas: status.ready_replicas,
                available_replicas: status.available_replicas,
                terminating_replicas: status.terminating_replicas,
                observed_generation: status.observed_generation,
                conditions: Status::conditions_of(&status.conditions),
            },
        }
    }
}

impl Owns for SyncedReplicationController {
    type Child = ReplicaPod;

    fn selector(owner: &ReplicationController) -> Result<LabelSelector, InvalidSelector> {
        let selector: &LabelMap = &group::<ReplicationControllerSpec>(owner).selector;
        Ok(LabelSelector::from_labels(selector.iter().map(|(key, value)| (key.as_str(), value.as_str()))))
    }

    fn is_untouched(owner: &ReplicationController) -> bool {
        group::<ReplicationControllerStatus>(owner).observed_generation == 0
    }
}

impl Replicates for SyncedReplicationController {
    const COMPONENT: &'static str = "replication-controller";
    const QUEUE: &'static str = "replicationmanager";
    const COUNTS_STALE_SYNCS: bool = false;
    const HAS_TERMINATING_REPLICAS: bool = false;

    fn owner(object: &ReplicationController) -> Owner {
        let spec = group::<ReplicationControllerSpec>(object);
        let status = group::<ReplicationControllerStatus>(object);
        let labels = &group::<replication_controller::TemplateLabels>(object).template.metadata.labels;
        Owner {
            meta: object.meta().clone(),
            replicas: number(spec.replicas),
            min_ready: seconds(spec.min_ready_seconds),
            template_labels: labels.clone(),
            template: group::<ReplicationControllerTemplate>(object).template.clone(),
            status: Status {
                replicas: status.replicas,
                fully_labeled_replicas: status.fully_labeled_replicas,
                ready_replicas: status.ready_replicas,
                available_replicas: status.available_replicas,
                terminating_replicas: None,
                observed_generation: status.observed_generation,
                conditions: Status::conditions_of(&status.conditions),
            },
        }
    }
}
