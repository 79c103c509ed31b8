//! The controller of DaemonSets: keeps a pod on each node that a template fits.
//!
//! ```text
//! changes of sets, pods, revisions ──────────────┐
//! changes of nodes ── the sets whose verdict ────┴─> queue ─> observe ─> plan: claims ─> history ─> manage ─> roll ─> status
//!                     about the node changes
//! ```
//!
//! A node's `Verdict` (`placement.rs`) depends only on the set's template and on the node's name, labels and taints. The
//! controller compares the verdicts before and after a change of a node, so that a change costs a sync only for the sets that
//! it concerns, and a heartbeat costs nothing.

mod back_off;
mod controller;
mod history;
mod kinds;
mod manage;
mod metrics;
mod nodes;
mod observed;
mod placement;
mod plan;
mod pods;
mod revision_control;
mod rolling;
mod sites;
mod status;
mod template;
#[cfg(test)]
mod tests;
mod tolerations;

pub use controller::construct;
use steersman_controller::options;
use steersman_controller::options::Workers;
use steersman_controller::rbac::Rule;
use steersman_controller::registry::Descriptor;

/// The row of the DaemonSet controller.
pub const DESCRIPTOR: Descriptor = Descriptor::new("daemonset-controller", &["daemonset"], construct)
    .options::<DaemonSetOptions>()
    .gates(&[COMPARISONS])
    .rules(&[
        Rule::new(&["apps"], &["daemonsets"], &["get", "list", "watch"]),
        Rule::new(&["apps"], &["daemonsets/status"], &["patch"]).because(
            "Kubernetes's own role has update instead, which the controller uses where it may not patch.",
        ),
        Rule::new(&["apps"], &["daemonsets/finalizers"], &["update"])
            .because("Pods and revisions name their DaemonSet as an owner that may not go before them."),
        Rule::new(
            &["apps"],
            &["controllerrevisions"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        Rule::new(&[""], &["pods"], &["list", "watch", "create", "patch", "delete"]),
        Rule::new(&[""], &["nodes"], &["list", "watch"]),
    ]);

options! {
    /// Settings of the DaemonSet controller.
    pub struct DaemonSetOptions("DaemonSetController") {
        /// How many DaemonSets are synced at a time
        pub concurrent_syncs: Workers = Workers(2), "concurrent-daemonset-syncs", "ConcurrentDaemonSetSyncs";
    }
}

/// The feature gate of tolerations that compare numbers.
const COMPARISONS: &str = "TaintTolerationComparisonOperators";
/// The label of pods and revisions with the hash of the revision.
const HASH_LABEL: &str = "controller-revision-hash";
/// The label of pods with the number of their template.
const TEMPLATE_GENERATION_LABEL: &str = "pod-template-generation";
