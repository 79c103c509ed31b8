use serde_json::{Value, json};
use steersman_informer::wire::FieldValue;
use steersman_kinds::node::Taint;
use steersman_kinds::scheduling::NodeRules;

use super::super::placement::{Comparisons, Placement, Verdict};
use super::*;

fn verdict(spec: &Value, labels: &[(&str, &str)], taints: &Value) -> Verdict {
    verdict_with(Comparisons::Off, spec, labels, taints)
}

fn verdict_with(comparisons: Comparisons, spec: &Value, labels: &[(&str, &str)], taints: &Value) -> Verdict {
    let rules = NodeRules::from_json(spec).unwrap();
    let taints = Vec::<Taint>::from_json(taints).unwrap();
    let node = Meta {
        key: ObjectKey::new("", "node-1"),
        labels: labels.iter().copied().collect(),
        ..Meta::default()
    };
    Placement::of(&rules, comparisons).verdict(&node, &taints)
}

fn required(terms: Value) -> Value {
    let required = json!({"nodeSelectorTerms": terms});
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

#[test]
fn nodes_are_chosen_by_name_and_labels() {
    let cases = [
        ("any", json!({}), true),
        ("its name", json!({"nodeName": "node-1"}), true),
        ("another name", json!({"nodeName": "other"}), false),
        ("a label", json!({"nodeSelector": {"disk": "fast"}}), true),
        ("two labels", json!({"nodeSelector": {"disk": "fast", "cores": "8"}}), true),
        ("another value", json!({"nodeSelector": {"disk": "slow"}}), false),
        ("one of two labels", json!({"nodeSelector": {"disk": "fast", "gpu": "1"}}), false),
        (
            "its name and another value",
            json!({"nodeName": "node-1", "nodeSelector": {"disk": "slow"}}),
            false,
        ),
        ("its name and a label", json!({"nodeName": "node-1", "nodeSelector": {"disk": "fast"}}), true),
        ("another name and a label", json!({"nodeName": "other", "nodeSelector": {"disk": "fast"}}), false),
    ];
    for (what, spec, fits) in cases {
        let expected = if fits { Verdict::Run } else { Verdict::Unfit };
        assert_eq!(verdict(&spec, &[("disk", "fast"), ("cores", "8")], &json!([])), expected, "{what}");
    }
}

#[test]
fn required_affinity_knows_all_operators() {
    let cases: [(&str, &str, &[&str], bool); 22] = [
        ("disk", "In", &["slow", "fast"], true),
        ("disk", "In", &["slow"], false),
        ("gpu", "In", &["fast"], false),
        ("disk", "NotIn", &["slow"], true),
        ("disk", "NotIn", &["fast"], false),
        ("gpu", "NotIn", &["fast"], true),
        ("disk", "Exists", &[], true),
        ("gpu", "Exists", &[], false),
        ("disk", "DoesNotExist", &[], false),
        ("gpu", "DoesNotExist", &[], true),
        ("cores", "Gt", &["7"], true),
        ("cores", "Gt", &["8"], false),
        ("cores", "Lt", &["9"], true),
        ("cores", "Lt", &["8"], false),
        ("disk", "Gt", &["7"], false),
        ("gpu", "Lt", &["7"], false),
        // Upstream can't parse these.
        ("cores", "Gt", &["seven"], false),
        ("cores", "Gt", &["6", "7"], false),
        ("disk", "In", &[], false),
        ("disk", "Exists", &["fast"], false),
        ("disk", "Like", &["fast"], false),
        ("gpu", "NotIn", &["not a label!"], false),
    ];
    for (key, operator, values, fits) in cases {
        let spec = required(json!([{"matchExpressions": [expression(key, operator, values)]}]));
        let expected = if fits { Verdict::Run } else { Verdict::Unfit };
        let found = verdict(&spec, &[("disk", "fast"), ("cores", "8")], &json!([]));
        assert_eq!(found, expected, "{key} {operator} {values:?}");
    }
}

#[test]
fn required_affinity_knows_the_name_of_a_node() {
    let cases = [
        (json!([expression("metadata.name", "In", &["node-1"])]), true),
        (json!([expression("metadata.name", "In", &["other"])]), false),
        (json!([expression("metadata.name", "NotIn", &["node-1"])]), false),
        (json!([expression("metadata.name", "NotIn", &["other"])]), true),
        (json!([expression("metadata.name", "In", &["node-1", "other"])]), false),
        (json!([expression("metadata.name", "Exists", &[])]), false),
        (json!([expression("metadata.uid", "In", &["node-1"])]), false),
        (json!([expression("metadata.uid", "NotIn", &["node-1"])]), true),
    ];
    for (fields, fits) in cases {
        let expected = if fits { Verdict::Run } else { Verdict::Unfit };
        let spec = required(json!([{"matchFields": fields.clone()}]));
        assert_eq!(verdict(&spec, &[], &json!([])), expected, "{fields}");
    }
}

#[test]
fn one_term_of_required_affinity_is_enough_and_all_of_its_requirements_count() {
    let good = expression("disk", "Exists", &[]);
    let bad = expression("gpu", "Exists", &[]);
    let broken = expression("disk", "Like", &[]);
    let name = expression("metadata.name", "In", &["node-1"]);
    let cases = [
        (json!([]), false),
        (json!([{}]), false),
        (json!([{"matchExpressions": [bad]}, {"matchExpressions": [good]}]), true),
        (json!([{"matchExpressions": [good, bad]}]), false),
        (json!([{"matchExpressions": [bad], "matchFields": [name]}]), false),
        (json!([{"matchExpressions": [good], "matchFields": [name]}]), true),
        (json!([{"matchExpressions": [good, broken]}]), false),
        (json!([{"matchExpressions": [broken]}, {"matchExpressions": [good]}]), true),
    ];
    for (terms, fits) in cases {
        let expected = if fits { Verdict::Run } else { Verdict::Unfit };
        assert_eq!(verdict(&required(terms.clone()), &[("disk", "x")], &json!([])), expected, "{terms}");
    }
    let preferred = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [bad]}},
    ]}}});
    assert_eq!(verdict(&preferred, &[], &json!([])), Verdict::Run, "preferences keep no pod away");
}

#[test]
fn taints_keep_pods_away_and_drive_them_away_unless_tolerated() {
    let taint = |effect: &str| json!([{"key": "k", "value": "v", "effect": effect}]);
    let toleration = |key: &str, operator: &str, value: &str, effect: &str| {
        let toleration = json!({"key": key, "operator": operator, "value": value, "effect": effect});
        json!({"tolerations": [toleration]})
    };
    use Verdict::{Keep, Run, Unfit};
    let cases = [
        (json!({}), "NoSchedule", Keep),
        (json!({}), "NoExecute", Unfit),
        (json!({}), "PreferNoSchedule", Run),
        (toleration("k", "Equal", "v", "NoSchedule"), "NoSchedule", Run),
        (toleration("k", "", "v", "NoSchedule"), "NoSchedule", Run),
        (toleration("k", "Equal", "other", "NoSchedule"), "NoSchedule", Keep),
        (toleration("k", "Exists", "", "NoSchedule"), "NoSchedule", Run),
        (toleration("k", "Exists", "", "NoSchedule"), "NoExecute", Unfit),
        (toleration("k", "Exists", "", ""), "NoExecute", Run),
        (toleration("", "Exists", "", ""), "NoExecute", Run),
        (toleration("", "Exists", "", "NoExecute"), "NoSchedule", Keep),
        (toleration("other", "Exists", "", ""), "NoExecute", Unfit),
        (toleration("k", "Gt", "v", "NoSchedule"), "NoSchedule", Keep),
    ];
    for (spec, effect, expected) in cases {
        assert_eq!(verdict(&spec, &[], &taint(effect)), expected, "{effect} with {spec}");
    }
    let both = json!([{"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "NoSchedule"}]);
    assert_eq!(verdict(&json!({}), &[], &both), Unfit);
    assert_eq!(verdict(&toleration("a", "Exists", "", ""), &[], &both), Keep);
    let unfit = json!({"nodeSelector": {"disk": "fast"}});
    assert_eq!(verdict(&unfit, &[], &taint("NoSchedule")), Unfit, "a node that does not fit keeps no pod");
}

#[test]
fn tolerations_compare_integers_where_the_gate_is_on() {
    use Verdict::{Keep, Run, Unfit};
    let cases = [
        ("5", "Gt", "4", "NoSchedule", Run),
        ("5", "Gt", "5", "NoSchedule", Keep),
        ("5", "Lt", "6", "NoSchedule", Run),
        ("5", "Lt", "5", "NoSchedule", Keep),
        ("5", "Lt", "6", "NoExecute", Run),
        ("5", "Lt", "4", "NoExecute", Unfit),
        ("-5", "Lt", "-4", "NoSchedule", Run),
        // Upstream reads none of these as numbers.
        ("5", "Lt", "06", "NoSchedule", Keep),
        ("5", "Lt", "+6", "NoSchedule", Keep),
        ("-0", "Lt", "6", "NoSchedule", Keep),
        ("five", "Lt", "6", "NoSchedule", Keep),
        ("5", "Lt", "9223372036854775808", "NoSchedule", Keep),
        ("5", "Near", "6", "NoSchedule", Keep),
    ];
    for (found, operator, value, effect, expected) in cases {
        let taints = json!([{"key": "k", "value": found, "effect": effect}]);
        let spec = json!({"tolerations": [{"key": "k", "operator": operator, "value": value}]});
        let what = format!("{found} {operator} {value}");
        assert_eq!(verdict_with(Comparisons::On, &spec, &[], &taints), expected, "{what}");
        let off = if effect == "NoExecute" { Unfit } else { Keep };
        assert_eq!(verdict_with(Comparisons::Off, &spec, &[], &taints), off, "{what}, with the gate off");
    }
}

#[test]
fn problems_of_nodes_keep_no_daemons_away() {
    let problem =
        |name: &str, effect: &str| json!([{"key": format!("node.kubernetes.io/{name}"), "effect": effect}]);
    let cases = [
        ("not-ready", "NoExecute", Verdict::Run),
        ("unreachable", "NoExecute", Verdict::Run),
        ("disk-pressure", "NoSchedule", Verdict::Run),
        ("memory-pressure", "NoSchedule", Verdict::Run),
        ("pid-pressure", "NoSchedule", Verdict::Run),
        ("unschedulable", "NoSchedule", Verdict::Run),
        ("network-unavailable", "NoSchedule", Verdict::Keep),
        ("not-ready", "NoSchedule", Verdict::Keep),
        ("out-of-service", "NoExecute", Verdict::Unfit),
    ];
    for (name, effect, expected) in cases {
        assert_eq!(verdict(&json!({}), &[], &problem(name, effect)), expected, "{name}:{effect}");
    }
    let on_network = json!({"hostNetwork": true});
    assert_eq!(verdict(&on_network, &[], &problem("network-unavailable", "NoSchedule")), Verdict::Run);
}
