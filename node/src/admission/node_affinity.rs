//! Where a pod says it must be: its node selector and its required node affinity.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Pod};

use super::Unfit;

/// What the scheduler calls this.
pub(super) const NAME: &str = "NodeAffinity";

type Labels = BTreeMap<String, String>;

/// A pod that does not want to be on a node like this is not let in.
pub(super) fn unfit(pod: &Pod, node: &Node) -> Option<Unfit> {
    let wanted = selects(pod, node) && is_required(pod, node);
    (!wanted).then_some(Unfit::Predicate(NAME, "node(s) didn't match Pod's node affinity/selector"))
}

fn selects(pod: &Pod, node: &Node) -> bool {
    let selector = pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref());
    let labels = node.metadata.labels.as_ref();
    let has = |(name, value): (&String, &String)| labels.and_then(|labels| labels.get(name)) == Some(value);
    selector.is_none_or(|selector| selector.iter().all(has))
}

fn is_required(pod: &Pod, node: &Node) -> bool {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()?.node_affinity.as_ref());
    let required = affinity.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|selector| matches_any_term(&selector.node_selector_terms, node))
}

/// Whether any of the terms selects the node. An empty or malformed term selects none.
pub(super) fn matches_any_term(terms: &[NodeSelectorTerm], node: &Node) -> bool {
    let none = Labels::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&none);
    let name = node.metadata.name.as_deref().unwrap_or_default();
    terms.iter().any(|term| matches_term(term, labels, name))
}

fn matches_term(term: &NodeSelectorTerm, labels: &Labels, name: &str) -> bool {
    let expressions = term.match_expressions.iter().flatten();
    let fields = term.match_fields.iter().flatten();
    let empty = expressions.clone().next().is_none() && fields.clone().next().is_none();
    !empty
        && expressions.map(|one| matches_label(one, labels)).all(|matched| matched == Some(true))
        && fields.map(|one| matches_field(one, name)).all(|matched| matched == Some(true))
}

/// `None` for a malformed requirement.
fn matches_label(requirement: &NodeSelectorRequirement, labels: &Labels) -> Option<bool> {
    let values = requirement.values.as_deref().unwrap_or_default();
    let label = labels.get(&requirement.key);
    let number = |text: &String| text.parse::<i64>().ok();
    let compared = |than: fn(i64, i64) -> bool| {
        let [bound] = values else { return None };
        let bound = number(bound)?;
        Some(label.and_then(number).is_some_and(|label| than(label, bound)))
    };
    match requirement.operator.as_str() {
        "In" if !values.is_empty() => Some(label.is_some_and(|label| values.contains(label))),
        "NotIn" if !values.is_empty() => Some(label.is_none_or(|label| !values.contains(label))),
        "Exists" if values.is_empty() => Some(label.is_some()),
        "DoesNotExist" if values.is_empty() => Some(label.is_none()),
        "Gt" => compared(|label, bound| label > bound),
        "Lt" => compared(|label, bound| label < bound),
        _ => None,
    }
}

/// Nodes have one field, their name. `None` for a malformed requirement.
fn matches_field(requirement: &NodeSelectorRequirement, name: &str) -> Option<bool> {
    let [value] = requirement.values.as_deref().unwrap_or_default() else { return None };
    let field = if requirement.key == "metadata.name" { name } else { "" };
    match requirement.operator.as_str() {
        "In" => Some(field == value),
        "NotIn" => Some(field != value),
        _ => None,
    }
}
