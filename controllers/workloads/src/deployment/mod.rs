//! The controller of Deployments: replaces pods by new ones, in a rollout that users control.
//!
//! ```text
//! changes of Deployments and ReplicaSets ─┬─> queue ─> observe: the Deployment's family ─> plan ─> ReplicaSets, status
//! ends of pods, with Recreate ────────────┘
//! ```
//!
//! A Deployment has a ReplicaSet for each template that it ever had: the *new* one has the current template, the others
//! are *old*. The controller changes their sizes; the pods are the business of the ReplicaSets' controller.
//!
//! As upstream's, with these differences:
//! - a sync writes the status once, where upstream writes it up to three times and mostly fails with a conflict;
//! - a sync reads the ReplicaSets of its Deployment by index, where upstream lists those of the namespace;
//! - while the controller of ReplicaSets is behind, sizes change more carefully: see `rolling.rs` and `recreate.rs`;
//! - two situations are resolved in which upstream waits for ever: see `scaling.rs`;
//! - numbers of pods that do not fit into 32 bits become the greatest one, where upstream's overflow.

mod annotations;
mod conditions;
mod controller;
mod history;
mod kinds;
mod new_set;
mod observed;
mod owner;
mod plan;
mod pods;
mod progress;
mod recreate;
mod replica_set;
mod rollback;
mod rolling;
mod scaling;
mod status;
mod templates;
#[cfg(test)]
mod tests;

use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::Descriptor;

pub use kinds::{DeploymentPod, DeploymentReplicaSet, SyncedDeployment};

/// The feature gate of `status.terminatingReplicas`.
const TERMINATING_REPLICAS: &str = "DeploymentReplicaSetTerminatingReplicas";

/// The row of the Deployment controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("deployment-controller", &["deployment"], controller::construct)
        .options::<DeploymentOptions>()
        .gates(&[TERMINATING_REPLICAS])
        .rules(&[
            Rule::new(&["apps"], &["deployments"], &["get", "list", "watch", "update"])
                .because("A rollback by annotation updates the Deployment itself."),
            Rule::new(&["apps"], &["deployments/status"], &["patch"]).because(
                "Kubernetes's own role has update instead, which the controller uses where it may not patch.",
            ),
            Rule::new(&["apps"], &["deployments/finalizers"], &["update"])
                .because("ReplicaSets name their Deployment as an owner that may not go before them."),
            Rule::new(&["apps"], &["replicasets"], &["get", "list", "watch", "create", "patch", "delete"]),
            Rule::new(&[""], &["pods"], &["list", "watch"]),
        ]);

options! {
    /// Settings of the Deployment controller.
    pub struct DeploymentOptions("DeploymentController") {
        /// How many Deployments are synced at a time
        pub concurrent_syncs: Workers = Workers(5), "concurrent-deployment-syncs", "ConcurrentDeploymentSyncs";
    }
}
