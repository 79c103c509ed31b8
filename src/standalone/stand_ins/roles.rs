//! Aggregates the rules of cluster roles such as `admin`, `edit` and `view`.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::{Selector, SelectorExt as _};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use steersman_client::fault::told;

/// The field manager of aggregated rules: the name of upstream's controller.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Why some roles do not have their rules. The caller retries.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The API server did not list the roles.
    #[error("cluster roles can't be listed: {}", told(.0))]
    List(#[source] kube::Error),
    /// Some roles were not written. Each text names a role and the error. All other roles were written.
    #[error("cluster roles can't be written: {}", .0.join("; "))]
    Write(Vec<String>),
}

/// Writes the rules of all aggregated roles.
///
/// # Errors
/// Roles can't be listed, or some of them can't be written.
pub(super) async fn gather(client: &kube::Client) -> Result<(), Error> {
    let roles = Api::<ClusterRole>::all(client.clone());
    let all = roles.list(&ListParams::default()).await.map_err(Error::List)?.items;
    let mut failed = Vec::new();
    for (name, rules) in plan(&all) {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        });
        // Names of roles may have characters that have a meaning in a path.
        let place = utf8_percent_encode(name, NON_ALPHANUMERIC).to_string();
        let written = roles.patch(&place, &PatchParams::apply(MANAGER).force(), &Patch::Apply(role)).await;
        if let Err(error) = written {
            failed.push(format!("{name:?}: {}", told(&error)));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Error::Write(failed)) }
}

/// The aggregated roles whose rules must change, with their new rules. Pure.
///
/// Goes through the roles by name, and takes the new rules of roles that it has already been through. So roles that
/// aggregate each other end up with the same rules.
fn plan(roles: &[ClusterRole]) -> BTreeMap<&str, Vec<PolicyRule>> {
    let mut sorted: Vec<&ClusterRole> = roles.iter().collect();
    sorted.sort_by_key(|role| name_of(role));
    let mut changed: BTreeMap<&str, Vec<PolicyRule>> = BTreeMap::new();
    for role in &sorted {
        let Some(aggregation) = &role.aggregation_rule else { continue };
        let mut rules: Vec<PolicyRule> = Vec::new();
        for selector in aggregation.cluster_role_selectors.iter().flatten() {
            // An invalid selector selects nothing.
            let Ok(selector) = Selector::try_from(selector.clone()) else { continue };
            let empty = BTreeMap::new();
            let is_part = |part: &&&ClusterRole| {
                let labels = part.metadata.labels.as_ref().unwrap_or(&empty);
                name_of(part) != name_of(role) && selector.matches(labels)
            };
            let rules_now = |part: &&ClusterRole| match changed.get(name_of(part)) {
                Some(planned) => planned.clone(),
                None => part.rules.clone().unwrap_or_default(),
            };
            for rule in sorted.iter().filter(is_part).flat_map(rules_now) {
                if !rules.contains(&rule) {
                    rules.push(rule);
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
    use std::sync::Arc;

    use parking_lot::Mutex;

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

    #[test]
    fn roles_that_are_made_of_each_other_come_to_rest() {
        let mut roles = [
            made_of(role("a", "of-b", &["get"]), "of-a"),
            made_of(role("b", "of-a", &["list"]), "of-b"),
            role("c", "of-b", &["watch"]),
        ];
        for _ in 0..roles.len() {
            let planned: BTreeMap<String, Vec<PolicyRule>> =
                plan(&roles).into_iter().map(|(name, rules)| (name.to_owned(), rules)).collect();
            for role in &mut roles {
                if let Some(rules) = planned.get(name_of(role)) {
                    role.rules = Some(rules.clone());
                }
            }
        }
        assert_eq!(plan(&roles), BTreeMap::new());
        assert_eq!(verbs(roles[0].rules.as_deref().unwrap()), ["list", "watch"]);
        assert_eq!(roles[0].rules, roles[1].rules);
    }

    #[tokio::test]
    async fn a_role_that_can_not_be_written_keeps_no_other_from_it() {
        let roles = [
            made_of(role("a b?", "", &[]), "part"),
            made_of(role("c", "", &[]), "part"),
            role("part", "part", &["get"]),
        ];
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": roles});
        let written = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&written);
        let client = kube::Client::new(
            tower::service_fn(move |request: http::Request<kube::client::Body>| {
                let path = request.uri().path().to_owned();
                let (code, body) = match request.method() {
                    &http::Method::GET => (200_u16, list.clone()),
                    _ if path.ends_with("/c") => (200, json!({"metadata": {"name": "c"}})),
                    _ => {
                        let status =
                            json!({"status": "Failure", "message": "no", "reason": "Forbidden", "code": 403});
                        (403, status)
                    }
                };
                if request.method() == http::Method::PATCH {
                    noted.lock().push(path);
                }
                let body = kube::client::Body::from(body.to_string().into_bytes());
                let answer = http::Response::builder().status(code).body(body);
                std::future::ready(answer)
            }),
            "default",
        );
        let Err(Error::Write(failed)) = gather(&client).await else { panic!("one can't be written") };
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert!(failed[0].starts_with("\"a b?\": "), "{failed:?}");
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        assert_eq!(*written.lock(), [format!("{path}/a%20b%3F"), format!("{path}/c")]);
    }
}
