use serde_json::{Value, json};
use steersman_controller::plan::Plan;
use steersman_informer::View;
use steersman_kinds::cluster_role::PolicyRule;

use super::Role;
use super::controller::applied;
use super::plan::{Apply, Observed, plan, selectors};

/// A role with this label, and one rule for each of these resources.
fn role(name: &str, label: &str, resources: &[&str]) -> Value {
    let rules: Vec<Value> = resources.iter().map(|resource| rule(resource)).collect();
    json!({"metadata": {"name": name, "uid": name, "labels": {"part-of": label}}, "rules": rules})
}

fn rule(resource: &str) -> Value {
    json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]})
}

/// The role `sum`, which aggregates the roles with these labels and has these rules.
fn sum(labels: &[&str], resources: &[&str]) -> Value {
    let mut sum = role("sum", "none", resources);
    let selectors = labels.iter().map(|label| json!({"matchLabels": {"part-of": label}}));
    sum["aggregationRule"] = json!({"clusterRoleSelectors": selectors.collect::<Vec<_>>()});
    sum
}

fn observed(sum: &Value, others: &[Value]) -> Observed {
    let role = View::<Role>::from_json(sum);
    let roles = others.iter().chain([sum]).map(View::from_json).collect();
    Observed { selectors: selectors(&role).unwrap(), role, roles, is_applied: false }
}

/// The rules that the plan applies, by their resources; `None` if it does nothing.
fn planned(sum: &Value, others: &[Value]) -> Option<Vec<String>> {
    let of_rule = |rule: &PolicyRule| rule.resources[0].to_string();
    match plan(&observed(sum, others)) {
        Plan::Act(batch) => {
            let [Apply(rules)] = &batch.steps[..] else { panic!("{batch:?}") };
            Some(rules.iter().map(of_rule).collect())
        }
        Plan::Done { .. } => None,
    }
}

#[test]
fn a_role_has_the_rules_that_its_selectors_select() {
    let hammer = || role("hammer", "tools", &["nails"]);
    let chisel = || role("chisel", "tools", &["chips"]);
    let saw = |label| role("saw", label, &["boards"]);
    type Row<'a> = (&'a str, Value, Vec<Value>, Option<&'a [&'a str]>);
    let rows: [Row<'_>; 9] = [
        ("rules of no role go", sum(&["tools"], &["boards"]), vec![hammer()], Some(&["nails"])),
        ("no role is selected", sum(&["other"], &["nails"]), vec![hammer()], Some(&[])),
        (
            "roles by name",
            sum(&["tools"], &[]),
            vec![hammer(), chisel(), saw("other")],
            Some(&["chips", "nails"]),
        ),
        (
            "selector by selector",
            sum(&["tools", "blades"], &[]),
            vec![hammer(), chisel(), saw("blades")],
            Some(&["chips", "nails", "boards"]),
        ),
        (
            "the selectors' order, not the names'",
            sum(&["tools", "blades"], &[]),
            vec![hammer(), role("axe", "blades", &["logs"])],
            Some(&["nails", "logs"]),
        ),
        (
            "each rule once",
            sum(&["tools", "blades"], &[]),
            vec![saw("tools"), role("other-saw", "blades", &["boards"]), hammer()],
            Some(&["nails", "boards"]),
        ),
        ("nothing to do", sum(&["tools"], &["nails"]), vec![hammer()], None),
        (
            "in another order",
            sum(&["tools"], &["nails", "chips"]),
            vec![hammer(), chisel()],
            Some(&["chips", "nails"]),
        ),
        ("not its own rules", sum(&["none"], &["nails"]), vec![], Some(&[])),
    ];
    for (name, sum, others, rules) in rows {
        let rules = rules.map(|rules| rules.iter().map(ToString::to_string).collect());
        assert_eq!(planned(&sum, &others), rules, "{name}");
    }
}

#[test]
fn an_empty_selector_selects_all_other_roles() {
    let mut all = role("sum", "none", &[]);
    all["aggregationRule"] = json!({"clusterRoleSelectors": [{}]});
    let others = [role("b", "x", &["pods"]), role("a", "y", &["jobs"])];
    assert_eq!(planned(&all, &others), Some(vec!["jobs".to_owned(), "pods".to_owned()]));
    all["aggregationRule"] = json!({});
    assert_eq!(planned(&all, &others), None, "no selector selects none");
}

#[test]
fn rules_that_were_applied_are_not_applied_again_in_the_same_sync() {
    let mut observed = observed(&sum(&["tools"], &[]), &[role("hammer", "tools", &["nails"])]);
    assert_ne!(plan(&observed), Plan::done());
    observed.is_applied = true;
    assert_eq!(plan(&observed), Plan::done());
}

#[test]
fn what_is_applied_has_no_empty_lists() {
    let view = View::<Role>::from_json(&json!({
        "metadata": {"name": "sum", "uid": "u"},
        "rules": [
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
            {"verbs": ["*"], "nonResourceURLs": ["/healthz"]},
        ],
    }));
    let rules = &view.get::<steersman_kinds::cluster_role::Rules>().0;
    let expected = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "sum", "uid": "u"},
        "rules": [
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
            {"verbs": ["*"], "nonResourceURLs": ["/healthz"]},
        ],
    });
    assert_eq!(applied(view.meta(), rules), expected);
    assert_eq!(applied(view.meta(), &[]).get("rules"), None);
}
