//! Which objects a quota is about.

use serde_json::Value;

use super::has_scopes;
use super::usage::{Measured, has_deadline};
use crate::object::{at, list_at, text_at};
use crate::registry::qos_class;

/// Whether an object is in all scopes of a quota.
pub(super) fn is_in_scope(quota: &Value, measured: &Measured<'_>, object: &Value) -> bool {
    if !has_scopes(quota) {
        return true;
    }
    let plain = list_at(quota, "spec.scopes").iter().filter_map(Value::as_str);
    let plain = plain.map(|name| Scope { name: name.to_owned(), operator: "Exists".to_owned(), values: &[] });
    let selected = list_at(quota, "spec.scopeSelector.matchExpressions").iter().map(|scope| Scope {
        name: text_at(scope, "scopeName"),
        operator: text_at(scope, "operator"),
        values: list_at(scope, "values"),
    });
    let mut all = plain.chain(selected);
    match measured.table {
        "pods" => all.all(|scope| scope.has_pod(object)),
        "persistentvolumeclaims" => all.all(|scope| scope.has_claim(object)),
        // All else is in no scope.
        _ => false,
    }
}

struct Scope<'a> {
    name: String,
    operator: String,
    values: &'a [Value],
}

impl Scope<'_> {
    fn has_pod(&self, pod: &Value) -> bool {
        let best_effort = || qos_class(&pod["spec"]) == "BestEffort";
        match self.name.as_str() {
            "Terminating" => has_deadline(pod),
            "NotTerminating" => !has_deadline(pod),
            "BestEffort" => best_effort(),
            "NotBestEffort" => !best_effort(),
            "PriorityClass" => self.selects(&text_at(pod, "spec.priorityClassName")),
            "CrossNamespacePodAffinity" => looks_beyond_namespace(&pod["spec"]),
            _ => false,
        }
    }

    fn has_claim(&self, claim: &Value) -> bool {
        if self.name != "VolumeAttributesClass" {
            return false;
        }
        let named = [
            "spec.volumeAttributesClassName",
            "status.currentVolumeAttributesClassName",
            "status.modifyVolumeStatus.targetVolumeAttributesClassName",
        ];
        let mut named: Vec<String> = named.iter().map(|path| text_at(claim, path)).collect();
        named.retain(|name| !name.is_empty());
        if named.is_empty() { self.selects("") } else { named.iter().any(|name| self.selects(name)) }
    }

    /// Whether it selects what has that value; empty for none.
    fn selects(&self, value: &str) -> bool {
        let is_among = || self.values.iter().any(|one| one == value);
        match self.operator.as_str() {
            "Exists" => !value.is_empty(),
            "DoesNotExist" => value.is_empty(),
            "In" => !value.is_empty() && is_among(),
            "NotIn" => value.is_empty() || !is_among(),
            _ => false,
        }
    }
}

/// Whether a pod wants to be near, or far from, pods of other namespaces.
fn looks_beyond_namespace(spec: &Value) -> bool {
    let beyond = |term: &Value| {
        !list_at(term, "namespaces").is_empty()
            || term.get("namespaceSelector").is_some_and(|all| !all.is_null())
    };
    ["podAffinity", "podAntiAffinity"].iter().filter_map(|kind| at(spec, "affinity")?.get(kind)).any(
        |affinity| {
            list_at(affinity, "requiredDuringSchedulingIgnoredDuringExecution").iter().any(beyond)
                || list_at(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
                    .iter()
                    .any(|weighted| beyond(&weighted["podAffinityTerm"]))
        },
    )
}
