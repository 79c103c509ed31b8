//! Amounts of resources, as containers and pods say them. Pure.

use std::collections::BTreeMap;

use serde_json::Value;
use steersman_api::Quantity;

use crate::object::{at, list_at, str_at};

/// Amounts by the names of resources.
pub(super) type Amounts = BTreeMap<String, Quantity>;

/// Whether that may be said of a whole pod.
fn is_of_whole_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Those of an object such as `{"cpu": "1"}`; what is no quantity is left out.
pub(super) fn read(amounts: Option<&Value>) -> Amounts {
    let all = amounts.and_then(Value::as_object).into_iter().flatten();
    all.filter_map(|(name, amount)| Some((name.clone(), amount.as_str()?.parse().ok()?))).collect()
}

/// As [`read`] reads them.
pub(super) fn written(amounts: &Amounts) -> Value {
    amounts.iter().map(|(name, amount)| (name.clone(), Value::from(amount.to_string()))).collect()
}

/// For people: `cpu=1,pods=2`.
pub(super) fn shown(amounts: &Amounts) -> String {
    let all: Vec<String> = amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    all.join(",")
}

/// Adds `more` to `sum`.
pub(super) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        sum.entry(name.clone()).and_modify(|sum| *sum = *sum + *amount).or_insert(*amount);
    }
}

/// Raises what is less than in `least`.
pub(super) fn raise(amounts: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let raised = amounts.entry(name.clone()).or_insert(*amount);
        if *amount > *raised {
            *raised = *amount;
        }
    }
}

/// What a pod has of `requests` or `limits` at any time of its life, without its overhead.
///
/// Containers that start the others need theirs one after the other, beside those that stay.
pub(super) fn of_pod(spec: &Value, kind: &str) -> Amounts {
    let of = |container: &Value| read(at(container, "resources").and_then(|resources| resources.get(kind)));
    let mut sum = Amounts::new();
    for container in list_at(spec, "containers") {
        add(&mut sum, &of(container));
    }
    let (mut staying, mut starting) = (Amounts::new(), Amounts::new());
    for container in list_at(spec, "initContainers") {
        let mut needed = of(container);
        if str_at(container, "restartPolicy") == Some("Always") {
            add(&mut sum, &needed);
            add(&mut staying, &needed);
            needed.clone_from(&staying);
        } else {
            add(&mut needed, &staying);
        }
        raise(&mut starting, &needed);
    }
    raise(&mut sum, &starting);
    // What is said of the whole goes before what is said of its parts.
    let whole = read(at(spec, "resources").and_then(|resources| resources.get(kind)));
    sum.extend(whole.into_iter().filter(|(name, _)| is_of_whole_pods(name)));
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu, "memory": "1Gi"}}})
    }

    #[test]
    fn a_pod_has_what_it_needs_at_most_at_a_time() {
        let sidecar = |cpu: &str| {
            let mut container = container(cpu);
            container["restartPolicy"] = "Always".into();
            container
        };
        for (spec, requests, limits) in [
            (
                json!({"containers": [container("1"), container("500m"), {}]}),
                "cpu=1500m",
                "cpu=1500m,memory=2Gi",
            ),
            (
                json!({"containers": [container("1")], "initContainers": [container("2")]}),
                "cpu=2",
                "cpu=2,memory=1Gi",
            ),
            (
                json!({"containers": [container("1")], "initContainers": [sidecar("1"), container("2")]}),
                "cpu=3",
                "cpu=3,memory=2Gi",
            ),
            (
                json!({
                    "containers": [container("1")],
                    "resources": {"requests": {"cpu": "3", "hugepages-2Mi": "4Mi", "x/y": "1"}},
                }),
                "cpu=3,hugepages-2Mi=4Mi",
                "cpu=1,memory=1Gi",
            ),
        ] {
            assert_eq!(shown(&of_pod(&spec, "requests")), requests, "{spec}");
            assert_eq!(shown(&of_pod(&spec, "limits")), limits, "{spec}");
        }
    }
}
