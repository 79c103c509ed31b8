//! The ClusterRole of the manifests, made from the RBAC rules that each controller declares.

use steersman_controller::rbac::{self, Rule};

/// The rule for recording events, which all controllers need.
const EVENTS: &[Rule] = &[Rule::new(&[""], &["events"], &["create", "patch"])];

/// The ClusterRole, as YAML, for a manager that runs all controllers of this program.
pub fn cluster_role() -> String {
    let registry = crate::builtin();
    let here = registry.rows().iter().filter(|row| row.is_here()).map(|row| (row.name, row.rules));
    let rules = here.chain([("all controllers", EVENTS)]);
    format!(
        "# Made from the rights that the controllers declare: cargo run --example cluster_role\n{}",
        rbac::cluster_role("steersman-controller-manager", rules)
    )
}
