//! Role-based access control: rules, and who they are for. Pure.

use serde_json::Value;

use super::Identity;
use super::attributes::{Attributes, Target};
use super::identity::user_of_account;
use crate::object::{list_at, text_at};

/// Whether a rule of a role (`rules[*]`) allows it.
pub(crate) fn allows(rule: &Value, wanted: &Attributes) -> bool {
    let texts = |name: &'static str| list_at(rule, name).iter().filter_map(Value::as_str);
    let has = |name: &'static str, wanted: &str| texts(name).any(|text| text == "*" || text == wanted);
    if !has("verbs", &wanted.verb) {
        return false;
    }
    match &wanted.target {
        Target::Path(path) => texts("nonResourceURLs").any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => path.starts_with(start),
            None => pattern == path,
        }),
        Target::Resource { group, resource, subresource, name, .. } => {
            has("apiGroups", group)
                && texts("resources").any(|pattern| is_resource(pattern, resource, subresource))
                && (list_at(rule, "resourceNames").is_empty()
                    || (!name.is_empty() && texts("resourceNames").any(|text| text == name)))
        }
    }
}

/// `pods`, `pods/log`, `*`, and `*/scale` for a subresource of everything.
fn is_resource(pattern: &str, resource: &str, subresource: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    match (pattern.split_once('/'), subresource) {
        (None, "") => pattern == resource,
        (Some((of, sub)), subresource) => (of == "*" || of == resource) && sub == subresource,
        (None, _) => false,
    }
}

/// Whether a subject of a binding (`subjects[*]`) is this user. `namespace` is the binding's own.
pub(crate) fn is_subject(subject: &Value, who: &Identity, namespace: &str) -> bool {
    let name = text_at(subject, "name");
    match text_at(subject, "kind").as_str() {
        "User" => name == who.user,
        "Group" => who.is_in(&name),
        "ServiceAccount" => {
            let own = text_at(subject, "namespace");
            let of = if own.is_empty() { namespace } else { &own };
            !of.is_empty() && who.user == user_of_account(of, &name)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn on(verb: &str, group: &str, resource: &str, subresource: &str, name: &str) -> Attributes {
        let target = Target::Resource {
            group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: "shop".into(),
            name: name.into(),
        };
        Attributes::new(verb, target)
    }

    #[test]
    fn rules_name_verbs_groups_resources_subresources_and_names() {
        let rule =
            json!({"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods", "*/scale"]});
        let named =
            json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["secrets"], "resourceNames": ["a"]});
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        for (rule, wanted, allowed) in [
            (&rule, on("get", "", "pods", "", "x"), true),
            (&rule, on("list", "", "pods", "", ""), true),
            (&rule, on("watch", "", "pods", "", ""), false),
            (&rule, on("get", "batch", "pods", "", ""), false),
            (&rule, on("get", "", "pods", "log", "x"), false),
            (&rule, on("get", "apps", "deployments", "scale", "x"), true),
            (&rule, on("get", "apps", "deployments", "", "x"), false),
            (&named, on("get", "", "secrets", "", "a"), true),
            (&named, on("get", "", "secrets", "", "b"), false),
            (&named, on("list", "", "secrets", "", ""), false),
            (&all, on("escalate", "any", "things", "sub", ""), true),
            (&all, Attributes::of_path(&http::Method::GET, "/version"), false),
        ] {
            assert_eq!(allows(rule, &wanted), allowed, "{rule} {wanted:?}");
        }
    }

    #[test]
    fn paths_may_end_in_a_star() {
        let rule = json!({"verbs": ["get"], "nonResourceURLs": ["/version", "/apis/*"]});
        let get = |path: &str| allows(&rule, &Attributes::of_path(&http::Method::GET, path));
        assert!(get("/version") && get("/apis/apps/v1") && get("/apis/"));
        assert!(!get("/version/") && !get("/api"));
        assert!(!allows(&rule, &Attributes::of_path(&http::Method::POST, "/version")));
    }

    #[test]
    fn subjects_are_users_groups_and_service_accounts() {
        let who = Identity::authenticated("system:serviceaccount:shop:web", ["buyers".to_owned()]);
        for (subject, namespace, is) in [
            (json!({"kind": "User", "name": "system:serviceaccount:shop:web"}), "", true),
            (json!({"kind": "User", "name": "web"}), "shop", false),
            (json!({"kind": "Group", "name": "buyers"}), "", true),
            (json!({"kind": "Group", "name": "system:authenticated"}), "", true),
            (json!({"kind": "ServiceAccount", "name": "web"}), "shop", true),
            (json!({"kind": "ServiceAccount", "name": "web"}), "", false),
            (json!({"kind": "ServiceAccount", "name": "web", "namespace": "other"}), "shop", false),
            (json!({"kind": "Robot", "name": "web"}), "shop", false),
        ] {
            assert_eq!(is_subject(&subject, &who, namespace), is, "{subject}");
        }
    }
}
