//! The rights of the manager, made from the RBAC rules that each controller declares: a ClusterRole for a list of
//! controllers, and the table from which the Helm chart makes one.

use std::fmt::Write;

use steersman_controller::rbac::{self, Rule};
use steersman_controller::registry::{ByDefault, Choice, Descriptor, Selection};

/// The rule for recording events, which all controllers need.
pub const EVENTS: &[Rule] = &[Rule::new(&[""], &["events"], &["create", "patch"])];

/// The first line of the table, which says how to make it anew.
const TABLE_HEADING: &str =
    "# Made from the rights that the controllers declare: cargo test --test manifests -- --ignored\n";

/// The ClusterRole, as YAML, for a manager that runs all controllers of this program.
pub fn cluster_role() -> String {
    role(|_| true)
}

/// The ClusterRole, as YAML, for a manager that runs only the controllers of this program that `selection` enables.
pub fn cluster_role_of(selection: &Selection) -> String {
    role(|row| selection.choice(row) != Choice::Disabled)
}

fn role(enabled: impl Fn(&Descriptor) -> bool) -> String {
    let registry = crate::builtin();
    let rows = registry.rows().iter().filter(|row| row.is_here() && enabled(row));
    let rules = rows.map(|row| (row.name, row.rules)).chain([("all controllers", EVENTS)]);
    format!(
        "# Made from the rights that the controllers declare: cargo run --example cluster_role -- CONTROLLERS\n{}",
        rbac::cluster_role("steersman-controller-manager", rules)
    )
}

/// The rules of each controller of this program, as YAML. The Helm chart makes the ClusterRole for its value
/// `controllers` from this table.
pub fn rules() -> String {
    let mut yaml = format!("{TABLE_HEADING}controllers:\n");
    for row in crate::builtin().rows().iter().filter(|row| row.is_here()) {
        _ = writeln!(yaml, "  - name: {}\n    aliases: {:?}", row.name, row.aliases);
        _ = writeln!(yaml, "    byDefault: {}\n    rules:", row.by_default == ByDefault::On);
        row.rules.iter().for_each(|rule| yaml += &item(rule));
    }
    yaml += "all:\n    rules:\n";
    EVENTS.iter().for_each(|rule| yaml += &item(rule));
    yaml
}

/// A rule as an item of a YAML list, on one line. Rust's debug form of these names is also JSON's, and so YAML's.
fn item(rule: &Rule) -> String {
    let names =
        if rule.names.is_empty() { String::new() } else { format!(", resourceNames: {:?}", rule.names) };
    format!(
        "      - {{apiGroups: {:?}, resources: {:?}{names}, verbs: {:?}}}\n",
        rule.groups, rule.resources, rule.verbs
    )
}
