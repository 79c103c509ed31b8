//! The controller of StatefulSets: keeps numbered pods, each with its own name and its own claims.
//!
//! ```text
//! changes of sets and pods ─> queue ─> observe: the set's family, claims, revisions ─> plan: claims ─> history ─> pods ─> status
//! ```
//!
//! Policy is upstream's but for these points:
//! - a sync's status counts the pods that the sync itself has created and deleted, where upstream writes the status a second
//!   time once its cache shows them;
//! - a claim is created with the owners that the retention policy demands, where upstream adds them afterwards;
//! - a set is synced when one of its claims is gone, where upstream waits for another event;
//! - a sync of a set whose pods are not ordered creates at most 500 pods, and the next sync goes on. Upstream plans all of them,
//!   so that a set of two thousand million pods takes the memory of the whole manager;
//! - the API server's defaults are filled into the template as well as into the last revision before the two are compared by
//!   meaning, where upstream fills them into the revision only;
//! - pods of broken revisions are replaced if the set's user has asked for it by an annotation (`repair.rs`).

mod acts;
mod claims;
mod condemned;
mod controller;
mod draft;
mod history;
mod identity;
mod kinds;
mod mapping;
mod metrics;
mod observed;
mod plan;
mod pods;
mod repair;
mod replicas;
mod revisions;
mod rollout;
mod status;
mod steps;
#[cfg(test)]
mod tests;

use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::Descriptor;
use steersman_informer::keep;
use steersman_kinds::persistent_volume_claim::PersistentVolumeClaim;
use steersman_kinds::pod::{Phase, Pod, Readiness};
use steersman_kinds::pod_volumes::PodVolumes;

use controller::construct;
pub use kinds::SyncedStatefulSet;

/// The row of the StatefulSet controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new("statefulset-controller", &["statefulset"], construct)
    .options::<StatefulSetOptions>()
    .gates(&["MaxUnavailableStatefulSet", "StatefulSetSemanticRevisionComparison"])
    .rules(&[
        Rule::new(&["apps"], &["statefulsets"], &["get", "list", "watch"]),
        Rule::new(&["apps"], &["statefulsets/status"], &["patch"]).because(
            "Kubernetes's own role has update instead, which the controller uses where it may not patch.",
        ),
        Rule::new(&["apps"], &["statefulsets/finalizers"], &["update"]).because(
            "Pods, claims and revisions name their StatefulSet as an owner that may not go before them.",
        ),
        Rule::new(
            &["apps"],
            &["controllerrevisions"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        Rule::new(&[""], &["pods"], &["get", "list", "watch", "create", "update", "patch", "delete"]),
        Rule::new(&[""], &["pods/finalizers"], &["update"])
            .because("Claims name their pod as an owner that may not go before them."),
        Rule::new(&[""], &["persistentvolumeclaims"], &["get", "list", "watch", "create", "update"]),
    ]);

options! {
    /// Settings of the StatefulSet controller.
    pub struct StatefulSetOptions("StatefulSetController") {
        /// How many StatefulSets are synced at a time
        pub concurrent_syncs: Workers = Workers(5), "concurrent-statefulset-syncs", "ConcurrentStatefulSetSyncs";
    }
}

keep! {
    /// What the controller reads of a pod.
    pub struct StatefulPod: Pod => Phase, Readiness, PodVolumes
}

keep! {
    /// What the controller reads of a claim: its metadata.
    pub struct OwnedClaim: PersistentVolumeClaim =>
}
