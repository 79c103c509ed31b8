//! The disruption controller: tells by the status of each PodDisruptionBudget how many of its pods may be evicted.
//!
//! ```text
//! changes of budgets, and of pods by an index of selectors
//!    └─> disruption ─> observe: the budget, its pods, their owners ─> plan ─> the status
//!            └─ entries of disruptedPods that will expire ─> disruption_recheck ─> disruption
//! changes of pods with the condition DisruptionTarget
//!    └─> stale_pod_disruption, after two minutes ─> the condition is taken back
//! ```
//!
//! The API server's eviction handler reads the status and writes it, too: it refuses an eviction while the status is older
//! than the spec, and takes each eviction off `disruptionsAllowed`, with an entry in `disruptedPods`. So each write carries the
//! version that it was decided on, and follows the handler's as quickly as it can.
//!
//! As upstream's controller, except that
//! - all budgets of a pod are synced, and also those that selected it before its labels changed. Upstream syncs one of them;
//! - the entry of an evicted pod stays as long as the cache may not show that pod yet;
//! - a budget is synced again after its back-off if a call failed, or an owner's kind is not known yet. Upstream waits for a
//!   change of the budget or its pods.

mod budget;
mod controller;
mod foreign;
mod notice;
mod observed;
mod owners;
mod plan;
mod pods;
mod selecting;
mod stale;
mod status;
#[cfg(test)]
mod tests;
mod verdict;

use steersman_controller::rbac::Rule;
use steersman_controller::registry::Descriptor;
use steersman_informer::keep;
use steersman_kinds::pod::{Disruption, DisruptionReason, Phase, Pod, Readiness};
use steersman_kinds::pod_disruption_budget::{
    PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus,
};

/// The row of the disruption controller.
pub const DESCRIPTOR: Descriptor =
    Descriptor::new("disruption-controller", &["disruption"], controller::construct).rules(&[
        Rule::new(&["policy"], &["poddisruptionbudgets"], &["get", "list", "watch"]),
        Rule::new(&["policy"], &["poddisruptionbudgets/status"], &["patch"]).because(
            "Kubernetes's own role has update instead, which the controller uses where it may not patch.",
        ),
        Rule::new(&[""], &["pods"], &["list", "watch"]),
        Rule::new(&[""], &["pods/status"], &["patch"]),
        Rule::new(&[""], &["replicationcontrollers"], &["list", "watch"]),
        Rule::new(&["apps"], &["deployments", "replicasets", "statefulsets"], &["list", "watch"]),
        Rule::new(&["*"], &["*/scale"], &["get"])
            .because("Budgets may select pods of custom resources, of whatever kind."),
    ]);

keep! {
    /// What the controller reads of a budget.
    pub struct SyncedBudget: PodDisruptionBudget => PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
}

keep! {
    /// What the controller reads of a pod.
    pub struct GuardedPod: Pod => Phase, Readiness, Disruption, DisruptionReason
}
