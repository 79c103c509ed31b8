//! A pod that is resized must fit its node (upstream's plugin `PodResizeValidator`).

use std::cmp::max;

use serde_json::Value;
use steersman_api::Quantity;

use crate::object::{at, list_at, str_at, text_at};

/// Why a node can't have a pod resized.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    /// For programs.
    pub(super) cause: &'static str,
    /// For people.
    pub(super) why: String,
}

/// Compares what the pod's containers ask for with what the node has.
pub(super) fn admit(spec: &Value, node: &Value) -> Result<(), Misfit> {
    let labels = at(node, "metadata.labels");
    let system = labels.and_then(|labels| labels.get("kubernetes.io/os")).and_then(Value::as_str);
    if let Some(system) = system.filter(|system| *system != "linux") {
        let name = text_at(node, "metadata.name");
        let why = format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}");
        return Err(Misfit { cause: "UnsupportedPlatform", why });
    }
    let allocatable = |name: &str| amount(at(node, "status.allocatable").and_then(|all| all.get(name)));
    let mut lacks = Vec::new();
    let mut compare = |name: &str, shown: fn(Quantity) -> i64| {
        let (requested, allocatable) = (shown(requests(spec, name)), shown(allocatable(name)));
        if requested > allocatable {
            lacks.push(format!("{name}, requested: {requested}, allocatable: {allocatable}"));
        }
    };
    compare("cpu", Quantity::milli_value);
    compare("memory", Quantity::value);
    if lacks.is_empty() {
        return Ok(());
    }
    let why = format!("node didn't have enough allocatable resources: {}", lacks.join("; "));
    Err(Misfit { cause: "NodeCapacity", why })
}

/// What a pod asks for of a resource, at any time of its life.
fn requests(spec: &Value, name: &str) -> Quantity {
    let of = |container: &Value| {
        let requests = at(container, "resources.requests");
        amount(requests.and_then(|requests| requests.get(name))).milli_value()
    };
    let overhead = amount(at(spec, "overhead").and_then(|overhead| overhead.get(name))).milli_value();
    // What is said of the whole pod goes before what is said of its parts.
    if let Some(whole) = at(spec, "resources.requests").and_then(|requests| requests.get(name)) {
        return Quantity::from_milli(amount(Some(whole)).milli_value().saturating_add(overhead));
    }
    let (mut beside, mut starting) = (0_i64, 0_i64);
    for container in list_at(spec, "initContainers") {
        if str_at(container, "restartPolicy") == Some("Always") {
            beside = beside.saturating_add(of(container));
            starting = max(starting, beside);
        } else {
            starting = max(starting, beside.saturating_add(of(container)));
        }
    }
    let running =
        list_at(spec, "containers").iter().map(of).fold(beside, |sum, more| sum.saturating_add(more));
    Quantity::from_milli(max(running, starting).saturating_add(overhead))
}

/// A quantity; zero where there is none.
fn amount(value: Option<&Value>) -> Quantity {
    value.and_then(Value::as_str).and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}})
    }

    #[test]
    fn a_pod_asks_for_what_it_needs_at_most_at_a_time() {
        let sidecar = |cpu: &str| {
            let mut container = container(cpu);
            container["restartPolicy"] = "Always".into();
            container
        };
        for (spec, milli) in [
            (json!({"containers": [container("1"), container("500m"), {}]}), 1500),
            (json!({"containers": [container("1")], "initContainers": [container("2")]}), 2000),
            (json!({"containers": [container("1")], "initContainers": [sidecar("1"), container("2")]}), 3000),
            (json!({"containers": [container("2")], "initContainers": [container("1"), sidecar("1")]}), 3000),
            (json!({"containers": [container("1")], "overhead": {"cpu": "250m"}}), 1250),
            (json!({"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}}), 3000),
        ] {
            assert_eq!(requests(&spec, "cpu").milli_value(), milli, "{spec}");
        }
    }

    #[test]
    fn a_node_bears_what_it_has() {
        let node = |cpu: &str, memory: &str, system: &str| {
            json!({
                "metadata": {"name": "n", "labels": {"kubernetes.io/os": system}},
                "status": {"allocatable": {"cpu": cpu, "memory": memory}},
            })
        };
        let spec = json!({"containers": [container("2")]});
        assert_eq!(admit(&spec, &node("2", "1Gi", "linux")), Ok(()));
        let capacity = "node didn't have enough allocatable resources: ";
        for (node, cause, why) in [
            (
                node("1", "1Gi", "linux"),
                "NodeCapacity",
                format!("{capacity}cpu, requested: 2000, allocatable: 1000"),
            ),
            (
                node("1500m", "1Mi", "linux"),
                "NodeCapacity",
                format!(
                    "{capacity}cpu, requested: 2000, allocatable: 1500; \
                     memory, requested: 1073741824, allocatable: 1048576"
                ),
            ),
            (
                node("4", "4Gi", "windows"),
                "UnsupportedPlatform",
                "pod resize is only supported on linux nodes, node \"n\" is \"windows\"".to_owned(),
            ),
        ] {
            assert_eq!(admit(&spec, &node), Err(Misfit { cause, why }));
        }
    }
}
