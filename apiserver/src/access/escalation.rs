//! Nobody gives others more rights than it has. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Identity;
use crate::object::list_at;

/// A rule about one thing: what is left of a rule that was taken apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    about: About,
    verbs: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    Resource { group: String, resource: String, name: Option<String> },
    Path(String),
}

/// What of `wanted` (rules of a role) nobody has who has `held`, as upstream words it: a line each, sorted. Empty if all of
/// it is held.
pub(crate) fn missing(held: &[Value], wanted: &[Value]) -> Vec<String> {
    let not_held = |right: &Right| !held.iter().any(|rule| covers(rule, right));
    let lacking = wanted.iter().flat_map(taken_apart).filter(not_held);
    // What differs in the verb alone is told together, but for paths.
    let mut verbs: BTreeMap<About, Vec<String>> = BTreeMap::new();
    let mut lines = BTreeSet::new();
    for right in lacking {
        match right.about {
            About::Path(_) => drop(lines.insert(described(&right.about, &right.verbs))),
            About::Resource { .. } => verbs.entry(right.about).or_default().extend(right.verbs),
        }
    }
    lines.extend(verbs.iter().map(|(about, verbs)| described(about, verbs)));
    lines.into_iter().collect()
}

/// What somebody is told who lacks rights.
pub(crate) fn attempt(who: &Identity, missing: &[String]) -> String {
    let groups: Vec<&str> = who.groups.iter().map(String::as_str).collect();
    format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        who.user,
        quoted(&groups),
        missing.join("\n")
    )
}

fn texts<'a>(rule: &'a Value, member: &'static str) -> Vec<&'a str> {
    list_at(rule, member).iter().filter_map(Value::as_str).collect()
}

/// A rule as rules of one verb for one thing each.
fn taken_apart(rule: &Value) -> Vec<Right> {
    let names: Vec<Option<String>> = match texts(rule, "resourceNames").as_slice() {
        [] => vec![None],
        names => names.iter().map(|name| Some((*name).to_owned())).collect(),
    };
    let (verbs, resources) = (texts(rule, "verbs"), texts(rule, "resources"));
    let mut rights = Vec::new();
    let mut note = |about: About, verb: &str| rights.push(Right { about, verbs: vec![verb.to_owned()] });
    for group in texts(rule, "apiGroups") {
        for resource in &resources {
            for verb in &verbs {
                for name in &names {
                    let (group, resource) = (group.to_owned(), (*resource).to_owned());
                    note(About::Resource { group, resource, name: name.clone() }, verb);
                }
            }
        }
    }
    for path in texts(rule, "nonResourceURLs") {
        verbs.iter().for_each(|verb| note(About::Path(path.to_owned()), verb));
    }
    rights
}

fn covers(rule: &Value, right: &Right) -> bool {
    let has = |member: &'static str, wanted: &str| texts(rule, member).contains(&wanted);
    let has_or_all = |member: &'static str, wanted: &str| has(member, "*") || has(member, wanted);
    right.verbs.iter().all(|verb| has_or_all("verbs", verb))
        && match &right.about {
            About::Resource { group, resource, name } => {
                has_or_all("apiGroups", group)
                    && (has_or_all("resources", resource)
                        || resource
                            .split_once('/')
                            .is_some_and(|(_, sub)| has("resources", &format!("*/{sub}"))))
                    && (list_at(rule, "resourceNames").is_empty()
                        || name.as_deref().is_some_and(|name| has("resourceNames", name)))
            }
            About::Path(path) => texts(rule, "nonResourceURLs").into_iter().any(|held| {
                held == path || (held.ends_with('*') && path.starts_with(held.trim_end_matches('*')))
            }),
        }
}

fn described(about: &About, verbs: &[String]) -> String {
    let verbs: Vec<&str> = verbs.iter().map(String::as_str).collect();
    let verbs = quoted(&verbs);
    match about {
        About::Resource { group, resource, name } => {
            let names = name.as_deref().map(|name| format!(", ResourceNames:{}", quoted(&[name])));
            let names = names.unwrap_or_default();
            format!("{{APIGroups:[{group:?}], Resources:[{resource:?}]{names}, Verbs:{verbs}}}")
        }
        About::Path(path) => format!("{{NonResourceURLs:[{path:?}], Verbs:{verbs}}}"),
    }
}

/// `["a" "b"]`, as Go writes a list of texts.
fn quoted(texts: &[&str]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(groups: &[&str], resources: &[&str], names: &[&str], verbs: &[&str]) -> Value {
        json!({"apiGroups": groups, "resources": resources, "resourceNames": names, "verbs": verbs})
    }

    #[test]
    fn rights_are_held_one_by_one_whichever_rules_they_stand_in() {
        let all = rule(&["*"], &["*"], &[], &["*"]);
        let paths = json!({"nonResourceURLs": ["/apis/*", "/version"], "verbs": ["get"]});
        let path = |path: &str| json!({"nonResourceURLs": [path], "verbs": ["get"]});
        let get = rule(&[""], &["pods"], &[], &["get"]);
        let list = rule(&[""], &["pods"], &[], &["list"]);
        let both = rule(&[""], &["pods"], &[], &["get", "list"]);
        let one = rule(&[""], &["pods"], &["a"], &["get"]);
        let logs = rule(&[""], &["*/log"], &[], &["get"]);
        let log = rule(&[""], &["pods/log"], &[], &["get"]);
        for (held, wanted, covered) in [
            (vec![&all], &both, true),
            (vec![&get, &list], &both, true),
            (vec![&get], &both, false),
            (vec![&get], &one, true),
            (vec![&one], &get, false),
            (vec![&one], &one, true),
            (vec![&logs], &log, true),
            (vec![&get], &log, false),
            (vec![&get], &logs, false),
            (vec![&all], &path("/version"), false),
            (vec![&paths], &path("/version"), true),
            (vec![&paths], &path("/apis/apps"), true),
            (vec![&paths], &path("/apis/*"), true),
            (vec![&paths], &path("*"), false),
            (vec![], &rule(&[], &[], &[], &["*"]), true),
        ] {
            let held: Vec<Value> = held.into_iter().cloned().collect();
            assert_eq!(missing(&held, std::slice::from_ref(wanted)).is_empty(), covered, "{held:?} {wanted}");
        }
    }

    #[test]
    fn what_is_missing_is_told_sorted_and_verbs_of_a_resource_together() {
        let wanted = [
            json!({"nonResourceURLs": ["/x"], "verbs": ["get", "list"]}),
            rule(&["x"], &["y"], &["b", "a"], &["get", "list"]),
            rule(&["", "x"], &["nodes"], &[], &["*"]),
        ];
        assert_eq!(
            missing(&[], &wanted),
            [
                r#"{APIGroups:[""], Resources:["nodes"], Verbs:["*"]}"#,
                r#"{APIGroups:["x"], Resources:["nodes"], Verbs:["*"]}"#,
                r#"{APIGroups:["x"], Resources:["y"], ResourceNames:["a"], Verbs:["get" "list"]}"#,
                r#"{APIGroups:["x"], Resources:["y"], ResourceNames:["b"], Verbs:["get" "list"]}"#,
                r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#,
                r#"{NonResourceURLs:["/x"], Verbs:["list"]}"#,
            ]
        );
    }
}
