//! The roles that every cluster has, and who they are for.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Upstream's, but for those of its controllers. See the head of the file for how it is written.
const TABLE: &str = include_str!("roles.txt");
const GROUP: &str = "rbac.authorization.k8s.io";

/// Cluster roles, then their bindings.
pub(super) struct Roles {
    pub(super) roles: Vec<Value>,
    pub(super) bindings: Vec<Value>,
}

impl Roles {
    /// All of them.
    pub(super) fn all() -> Self {
        let mut all = Self { roles: Vec::new(), bindings: Vec::new() };
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "role" => all.roles.push(role(rest)),
                "binding" => all.bindings.push(binding(rest)),
                _ => {
                    let last = all.roles.last_mut().expect("a rule in the table must follow its role");
                    if let Some(rules) = last["rules"].as_array_mut() {
                        rules.push(rule(rest));
                    }
                }
            }
        }
        all.aggregate();
        all
    }

    /// Gives roles that are made of others their rules, with which they begin.
    fn aggregate(&mut self) {
        let mut parts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for target in AGGREGATED {
            let label = format!("{GROUP}/aggregate-to-{target}");
            let of = self.roles.iter().enumerate();
            let of = of.filter(|(_, role)| role["metadata"]["labels"].get(&label).is_some());
            parts.insert(target, of.map(|(at, _)| at).collect());
        }
        // Each is a part of the next.
        for target in AGGREGATED {
            let rules: Vec<Value> = parts[target]
                .iter()
                .flat_map(|at| self.roles[*at]["rules"].as_array().cloned().unwrap_or_default())
                .collect();
            let role = self.roles.iter_mut().find(|role| role["metadata"]["name"] == target);
            let role = role.expect("the table must have the roles that are made of others");
            let labels = json!({format!("{GROUP}/aggregate-to-{target}"): "true"});
            role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
            role["rules"] = rules.into();
        }
    }
}

const AGGREGATED: [&str; 3] = ["view", "edit", "admin"];

/// Without upstream's annotation that says that they are kept up to date: what is there stays as it is.
fn metadata(name: &str) -> Value {
    json!({"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}})
}

/// From `NAME [> PART OF]`.
fn role(line: &str) -> Value {
    let (name, part_of) = line.split_once(" > ").unwrap_or((line, ""));
    let mut metadata = metadata(name);
    if !part_of.is_empty() {
        metadata["labels"][format!("{GROUP}/aggregate-to-{part_of}")] = "true".into();
    }
    json!({"metadata": metadata, "rules": []})
}

/// From `VERBS: GROUPS RESOURCES [= NAMES]` or `VERBS: PATH...`.
fn rule(line: &str) -> Value {
    let list = |words: &str| -> Vec<String> {
        words.split(',').map(|word| if word == "-" { String::new() } else { word.to_owned() }).collect()
    };
    let (verbs, rest) = line.split_once(": ").expect("a rule in the table must have verbs");
    let words: Vec<&str> = rest.split(' ').collect();
    match words.as_slice() {
        [path, ..] if path.starts_with('/') || *rest == *"*" => {
            json!({"verbs": list(verbs), "nonResourceURLs": words})
        }
        [groups, resources] => {
            json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)})
        }
        [groups, resources, .., names] => json!({
            "verbs": list(verbs),
            "apiGroups": list(groups),
            "resources": list(resources),
            "resourceNames": list(names),
        }),
        _ => unreachable!("a split text has at least one part, and one part is a path or a star"),
    }
}

/// From `NAME [KIND:SUBJECT...]`.
fn binding(line: &str) -> Value {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let subjects: Vec<Value> = words
        .filter_map(|word| word.split_once(':'))
        .map(|(kind, subject)| match (kind, subject.split_once('/')) {
            ("account", Some((namespace, name))) => {
                json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
            }
            ("group", _) => json!({"kind": "Group", "apiGroup": GROUP, "name": subject}),
            _ => json!({"kind": "User", "apiGroup": GROUP, "name": subject}),
        })
        .collect();
    json!({
        "metadata": metadata(name),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": subjects,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<'a>(list: &'a [Value], name: &str) -> &'a Value {
        list.iter().find(|found| found["metadata"]["name"] == name).unwrap()
    }

    #[test]
    fn rules_are_of_resources_or_of_paths() {
        let all = Roles::all();
        assert_eq!(
            find(&all.roles, "cluster-admin")["rules"],
            json!([
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*"]},
            ])
        );
        assert_eq!(
            find(&all.roles, "system:public-info-viewer")["rules"],
            json!([{
                "verbs": ["get"],
                "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"],
            }])
        );
        assert_eq!(
            find(&all.roles, "system:kube-controller-manager")["rules"][2],
            json!({
                "verbs": ["get", "update"],
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "resourceNames": ["kube-controller-manager"],
            })
        );
        assert_eq!(find(&all.roles, "system:kube-dns")["rules"][0]["apiGroups"], json!([""]));
    }

    #[test]
    fn who_may_edit_may_view_and_who_administers_may_edit() {
        let all = Roles::all();
        let rules = |name: &str| find(&all.roles, name)["rules"].as_array().unwrap();
        let has_all = |of: &str, part: &str| rules(part).iter().all(|rule| rules(of).contains(rule));
        for (of, part) in [
            ("view", "system:aggregate-to-view"),
            ("edit", "view"),
            ("edit", "system:aggregate-to-edit"),
            ("admin", "edit"),
            ("admin", "system:aggregate-to-admin"),
        ] {
            assert!(!rules(part).is_empty() && has_all(of, part), "{of} {part}");
        }
        assert!(!has_all("view", "edit"));
    }

    #[test]
    fn every_binding_has_its_role() {
        let all = Roles::all();
        for binding in &all.bindings {
            find(&all.roles, binding["roleRef"]["name"].as_str().unwrap());
        }
        assert_eq!(
            find(&all.bindings, "cluster-admin")["subjects"],
            json!([{"kind": "Group", "apiGroup": GROUP, "name": "system:masters"}])
        );
        assert_eq!(
            find(&all.bindings, "system:kube-dns")["subjects"],
            json!([{"kind": "ServiceAccount", "namespace": "kube-system", "name": "kube-dns"}])
        );
    }
}
