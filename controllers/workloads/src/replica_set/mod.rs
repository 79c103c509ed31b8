//! The controllers of ReplicaSets and ReplicationControllers: keep a number of equal pods. One engine serves both kinds.
//!
//! ```text
//! changes of owners and pods ─> queue ─> observe: the owner's family ─> plan: claims ─> pods ─> status
//! ```
//!
//! As upstream's, except that a sync's status counts the pods which the sync itself has created and deleted, where upstream
//! writes the status a second time once its cache shows them.

mod controller;
mod kinds;
mod metrics;
mod observed;
mod plan;
mod pods;
mod rank;
mod status;
#[cfg(test)]
mod tests;

use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::Descriptor;
use steersman_informer::keep;
use steersman_kinds::pod::{
    Containers, DeletionCost, InitContainers, Phase, Placement, Pod, Readiness, Sidecars,
};

use controller::construct;
pub use kinds::{SyncedReplicaSet, SyncedReplicationController};
use metrics::Metrics;

/// The ReplicaSet controller's entry in the registry.
pub const REPLICA_SETS: Descriptor = Descriptor::new("replicaset-controller", &["replicaset"], |context| {
    Metrics::shared().register(&context.metrics)?;
    construct::<SyncedReplicaSet>(context, context.options::<ReplicaSetOptions>().concurrent_syncs)
})
.options::<ReplicaSetOptions>()
.gates(&[TERMINATING_REPLICAS, DELETION_COST])
.rules(&[
    Rule::new(&["apps"], &["replicasets"], &["get", "list", "watch"]),
    Rule::new(&["apps"], &["replicasets/status"], &["patch"]).because(
        "Kubernetes's own role has update instead, which the controller uses where it may not patch.",
    ),
    Rule::new(&["apps"], &["replicasets/finalizers"], &["update"])
        .because("Pods name their ReplicaSet as an owner that may not go before them."),
    PODS,
]);

/// The ReplicationController controller's entry in the registry.
pub const REPLICATION_CONTROLLERS: Descriptor =
    Descriptor::new("replicationcontroller-controller", &["replicationcontroller"], |context| {
        let options: ReplicationControllerOptions = context.options();
        construct::<SyncedReplicationController>(context, options.concurrent_syncs)
    })
    .options::<ReplicationControllerOptions>()
    .gates(&[DELETION_COST])
    .rules(&[
        Rule::new(&[""], &["replicationcontrollers"], &["get", "list", "watch"]),
        Rule::new(&[""], &["replicationcontrollers/status"], &["patch"]).because(
            "Kubernetes's own role has update instead, which the controller uses where it may not patch.",
        ),
        Rule::new(&[""], &["replicationcontrollers/finalizers"], &["update"])
            .because("Pods name their ReplicationController as an owner that may not go before them."),
        PODS,
    ]);

/// The feature gate of `status.terminatingReplicas`. ReplicationControllers have no such field.
const TERMINATING_REPLICAS: &str = "DeploymentReplicaSetTerminatingReplicas";
/// The feature gate of the annotation `controller.kubernetes.io/pod-deletion-cost`.
const DELETION_COST: &str = "PodDeletionCost";

const PODS: Rule = Rule::new(&[""], &["pods"], &["list", "watch", "create", "patch", "delete"]);

options! {
    /// Settings of the ReplicaSet controller.
    pub struct ReplicaSetOptions("ReplicaSetController") {
        /// How many ReplicaSets are synced at a time
        pub concurrent_syncs: Workers = Workers(5), "concurrent-replicaset-syncs", "ConcurrentRSSyncs";
    }
}

options! {
    /// Settings of the ReplicationController controller.
    pub struct ReplicationControllerOptions("ReplicationController") {
        /// How many ReplicationControllers are synced at a time
        pub concurrent_syncs: Workers = Workers(5), "concurrent-rc-syncs", "ConcurrentRCSyncs";
    }
}

keep! {
    /// What the controllers read of a pod.
    pub struct ReplicaPod: Pod => Placement, Phase, Readiness, Containers, InitContainers, Sidecars, DeletionCost
}
