//! On which nodes a DaemonSet's pods run.

use steersman_api::Meta;
use steersman_api::meta::Labels;
use steersman_api::names;
use steersman_kinds::node::Taint;
use steersman_kinds::scheduling::{NodeRules, NodeSelectorRequirement, NodeSelectorTerm, Toleration};

use super::tolerations::DEFAULTS;

/// Whether a DaemonSet wants a pod on a node. Upstream's `NodeShouldRunDaemonPod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// The node must have no pod of the DaemonSet.
    Unfit,
    /// The node gets no pod, but a pod that runs on it may stay: the pods do not tolerate a taint with the effect
    /// `NoSchedule`.
    Keep,
    /// The node must have a pod of the DaemonSet.
    Run,
}

/// Whether tolerations may compare numbers: the feature gate `TaintTolerationComparisonOperators`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparisons {
    /// `Lt` and `Gt` compare the values as integers.
    On,
    /// `Lt` and `Gt` tolerate no taint.
    Off,
}

/// The rules by which a DaemonSet chooses its nodes, prepared to be applied to many nodes.
pub(super) struct Placement<'a> {
    rules: &'a NodeRules,
    comparisons: Comparisons,
    /// The terms of the required node affinity that can select a node. `None`: the template has no required node affinity.
    terms: Option<Vec<&'a NodeSelectorTerm>>,
}

impl<'a> Placement<'a> {
    /// Prepares the rules of a template.
    pub(super) fn of(rules: &'a NodeRules, comparisons: Comparisons) -> Self {
        let required = rules.affinity.node.required.as_ref();
        let terms = required.map(|required| required.terms.iter().filter(|term| is_usable(term)).collect());
        Self { rules, comparisons, terms }
    }

    /// Whether the DaemonSet wants a pod on the node with this metadata and these taints.
    pub(super) fn verdict(&self, node: &Meta, taints: &[Taint]) -> Verdict {
        let name = &node.key.name;
        let named = &self.rules.node_name;
        if (!named.is_empty() && **named != **name) || !self.selects(name, &node.labels) {
            return Verdict::Unfit;
        }
        let untolerated = taints.iter().filter(|taint| !self.tolerates(taint)).map(|taint| &*taint.effect);
        untolerated.fold(Verdict::Run, |verdict, effect| match effect {
            "NoExecute" => Verdict::Unfit,
            "NoSchedule" => verdict.min(Verdict::Keep),
            _ => verdict,
        })
    }

    fn selects(&self, name: &str, labels: &Labels) -> bool {
        let selected = self.rules.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        let meets = |term: &&NodeSelectorTerm| {
            term.match_expressions.iter().all(|requirement| meets(requirement, labels))
                && term.match_fields.iter().all(|requirement| meets_field(requirement, name))
        };
        selected && self.terms.as_ref().is_none_or(|terms| terms.iter().any(meets))
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        let own =
            self.rules.tolerations.iter().any(|toleration| tolerates(toleration, taint, self.comparisons));
        let mut defaults =
            DEFAULTS.iter().filter(|default| !default.host_network_only || self.rules.host_network);
        own || defaults.any(|default| taint.key == default.key && taint.effect == default.effect)
    }
}

/// Whether a toleration matches a taint. Upstream's `ToleratesTaint`.
fn tolerates(toleration: &Toleration, taint: &Taint, comparisons: Comparisons) -> bool {
    let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
    fits(&toleration.effect, &taint.effect)
        && fits(&toleration.key, &taint.key)
        && match (&*toleration.operator, comparisons) {
            ("" | "Equal", _) => toleration.value == taint.value,
            ("Exists", _) => true,
            ("Lt", Comparisons::On) => compare(&taint.value, &toleration.value, i64::lt),
            ("Gt", Comparisons::On) => compare(&taint.value, &toleration.value, i64::gt),
            _ => false,
        }
}

/// Compares two decimal integers without a plus sign or leading zeros, the only form that upstream accepts. A value of another
/// form does not compare.
fn compare(taint: &str, toleration: &str, holds: fn(&i64, &i64) -> bool) -> bool {
    let number = |text: &str| text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    number(taint).zip(number(toleration)).is_some_and(|(taint, toleration)| holds(&taint, &toleration))
}

/// Whether a term selects any node at all. An empty term selects none, and so does one with a requirement that upstream
/// can't parse.
fn is_usable(term: &NodeSelectorTerm) -> bool {
    !(term.match_expressions.is_empty() && term.match_fields.is_empty())
        && term.match_expressions.iter().all(is_label_requirement)
        && term.match_fields.iter().all(|field| field.values.len() == 1 && is_list_operator(&field.operator))
}

fn is_list_operator(operator: &str) -> bool {
    matches!(operator, "In" | "NotIn")
}

/// Upstream's `labels.NewRequirement`.
fn is_label_requirement(requirement: &NodeSelectorRequirement) -> bool {
    let values = &requirement.values;
    let fits = match &*requirement.operator {
        "In" | "NotIn" => !values.is_empty(),
        "Exists" | "DoesNotExist" => values.is_empty(),
        "Gt" | "Lt" => values.len() == 1 && values[0].parse::<i64>().is_ok(),
        _ => false,
    };
    fits && names::qualified_name(&requirement.key).is_empty()
        && values.iter().all(|value| names::label_value(value).is_empty())
}

fn meets(requirement: &NodeSelectorRequirement, labels: &Labels) -> bool {
    let (found, values) = (labels.get(&requirement.key), &requirement.values);
    let compare = |holds: fn(&i64, &i64) -> bool| {
        let found = found.and_then(|found| found.parse().ok());
        let bound = values.first().and_then(|bound| bound.parse().ok());
        found.zip(bound).is_some_and(|(found, bound)| holds(&found, &bound))
    };
    match &*requirement.operator {
        "In" => found.is_some_and(|found| values.contains(found)),
        "NotIn" => found.is_none_or(|found| !values.contains(found)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compare(i64::gt),
        "Lt" => compare(i64::lt),
        _ => false,
    }
}

/// A field that nodes do not have is empty.
fn meets_field(requirement: &NodeSelectorRequirement, name: &str) -> bool {
    let found = if requirement.key == steersman_kinds::scheduling::NODE_NAME { name } else { "" };
    requirement.values.iter().any(|value| value == found) == (requirement.operator == "In")
}
