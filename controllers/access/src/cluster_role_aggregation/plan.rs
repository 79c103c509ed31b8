//! The rules of an aggregated role.

use steersman_api::LabelSelector;
use steersman_api::selector::InvalidSelector;
use steersman_controller::plan::Plan;
use steersman_informer::View;
use steersman_kinds::cluster_role::{Aggregation, PolicyRule, Rules};

use super::Role;

/// An aggregated role.
#[derive(Debug)]
pub(super) struct Observed {
    /// The role.
    pub role: View<Role>,
    /// The role's selectors, in its order.
    pub selectors: Vec<LabelSelector>,
    /// All roles, in any order.
    pub roles: Vec<View<Role>>,
    /// Whether this sync has applied the rules.
    pub is_applied: bool,
}

/// Gives the role these rules.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Apply(pub Vec<PolicyRule>);

/// The selectors of an aggregated role; none if the role is not aggregated.
///
/// # Errors
/// A selector is invalid. The API server refuses such roles.
pub(super) fn selectors(role: &View<Role>) -> Result<Vec<LabelSelector>, InvalidSelector> {
    let aggregation = role.get::<Aggregation>().0.iter();
    let selectors = aggregation.flat_map(|aggregation| &aggregation.cluster_role_selectors);
    selectors.map(|selector| selector.to_selector()).collect()
}

/// Applies the rules that the role should have, if it has others.
pub(super) fn plan(observed: &Observed) -> Plan<Apply> {
    let rules = aggregated(observed);
    if observed.is_applied || rules == observed.role.get::<Rules>().0 {
        return Plan::done();
    }
    Plan::step(Apply(rules))
}

/// The rules of the selected roles: selector by selector, in each the roles by name, and each rule once.
fn aggregated(observed: &Observed) -> Vec<PolicyRule> {
    let mut rules = Vec::new();
    for selector in &observed.selectors {
        let own = &observed.role.meta().key;
        let is_selected =
            |role: &&View<Role>| role.meta().key != *own && selector.matches(&role.meta().labels);
        let mut selected: Vec<_> = observed.roles.iter().filter(is_selected).collect();
        selected.sort_unstable_by_key(|role| &role.meta().key.name);
        for rule in selected.into_iter().flat_map(|role| &role.get::<Rules>().0) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    rules
}
