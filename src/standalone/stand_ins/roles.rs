//! Cluster roles that are made of others, such as `admin`, `edit` and `view`.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::{Selector, SelectorExt as _};
use serde_json::json;

/// The manager of the rules that are gathered: upstream's controller's name.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Gives every role that is made of others the rules that these have now.
///
/// # Errors
/// Roles can't be listed, or written; what was written stays so.
pub(super) async fn gather(client: &kube::Client) -> Result<(), kube::Error> {
    let roles = Api::<ClusterRole>::all(client.clone());
    let all = roles.list(&ListParams::default()).await?.items;
    for (name, rules) in plan(&all) {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        });
        roles.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(role)).await?;
    }
    Ok(())
}

/// The roles whose rules are not those of their parts, with the rules that they should have. Pure.
fn plan(roles: &[ClusterRole]) -> BTreeMap<&str, Vec<PolicyRule>> {
    let mut sorted: Vec<&ClusterRole> = roles.iter().collect();
    sorted.sort_by_key(|role| name_of(role));
    let mut changed = BTreeMap::new();
    for role in roles {
        let Some(aggregation) = &role.aggregation_rule else { continue };
        let mut rules: Vec<PolicyRule> = Vec::new();
        for selector in aggregation.cluster_role_selectors.iter().flatten() {
            // One that makes no sense selects nothing.
            let Ok(selector) = Selector::try_from(selector.clone()) else { continue };
            let empty = BTreeMap::new();
            let is_part = |part: &&&ClusterRole| {
                let labels = part.metadata.labels.as_ref().unwrap_or(&empty);
                name_of(part) != name_of(role) && selector.matches(labels)
            };
            for rule in sorted.iter().filter(is_part).flat_map(|part| part.rules.iter().flatten()) {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
        if rules != role.rules.clone().unwrap_or_default() {
            changed.insert(name_of(role), rules);
        }
    }
    changed
}

fn name_of(role: &ClusterRole) -> &str {
    role.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, label: &str, verbs: &[&str]) -> ClusterRole {
        let rules: Vec<_> = verbs
            .iter()
            .map(|verb| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}))
            .collect();
        let labels = if label.is_empty() { json!({}) } else { json!({label: "true"}) };
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "rules": rules})).unwrap()
    }

    fn made_of(mut role: ClusterRole, label: &str) -> ClusterRole {
        let aggregation = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
        role.aggregation_rule = serde_json::from_value(aggregation).unwrap();
        role
    }

    fn verbs(rules: &[PolicyRule]) -> Vec<&str> {
        rules.iter().map(|rule| rule.verbs[0].as_str()).collect()
    }

    #[test]
    fn a_role_has_the_rules_of_its_parts_each_once_in_the_order_of_their_names() {
        let roles = [
            made_of(role("sum", "part", &["old"]), "part"),
            role("b", "part", &["watch", "get"]),
            role("a", "part", &["get", "list"]),
            role("c", "other", &["delete"]),
            role("d", "", &["patch"]),
        ];
        let planned = plan(&roles);
        assert_eq!(planned.len(), 1);
        assert_eq!(verbs(&planned["sum"]), ["get", "list", "watch"]);
    }

    #[test]
    fn a_role_that_has_them_stays_as_it_is_and_one_without_parts_is_empty() {
        let whole = made_of(role("sum", "", &["get"]), "part");
        assert!(plan(&[whole.clone(), role("a", "part", &["get"])]).is_empty());
        assert_eq!(plan(&[whole]), BTreeMap::from([("sum", Vec::new())]));
    }
}
