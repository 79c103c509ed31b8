//! What the class of its runtime adds to a pod (upstream's plugin `RuntimeClass`). Pure.

use serde_json::{Value, json};

use super::amounts;
use crate::object::{at, list_at, members, members_at, same, text_at};

/// Gives a new pod the overhead of its class, and where it may run.
///
/// # Errors
/// It says something else than its class does.
pub(super) fn admit(pod: &mut Value, class: Option<&Value>) -> Result<(), String> {
    let Some(class) = class else { return Ok(()) };
    if let Some(overhead) = at(class, "overhead").filter(|overhead| overhead.is_object()) {
        let said = at(pod, "spec.overhead");
        if said.and_then(Value::as_object).is_some_and(|said| !said.is_empty())
            && !is_overhead(said, overhead)
        {
            return Err(OTHER_OVERHEAD.to_owned());
        }
        let fixed = overhead.get("podFixed").cloned().unwrap_or_else(|| json!({}));
        members_at(pod, "spec").insert("overhead".to_owned(), fixed);
    }
    let Some(scheduling) = at(class, "scheduling").filter(|scheduling| scheduling.is_object()) else {
        return Ok(());
    };
    if let Some(Value::Object(selector)) = scheduling.get("nodeSelector") {
        let own = members(members_at(pod, "spec").entry("nodeSelector").or_insert_with(|| json!({})));
        for (key, value) in selector {
            if let Some(other) = own.get(key).filter(|own| *own != value) {
                let [value, other] = [value, other].map(|value| value.as_str().unwrap_or_default());
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {other}"
                ));
            }
            own.insert(key.clone(), value.clone());
        }
    }
    let tolerations = [list_at(pod, "spec.tolerations"), list_at(scheduling, "tolerations")].concat();
    if !tolerations.is_empty() {
        members_at(pod, "spec").insert("tolerations".to_owned(), merged(&tolerations).into());
    }
    Ok(())
}

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// Looks at the overhead of a pod once more: others may have changed it.
///
/// # Errors
/// It is not what its class says.
pub(super) fn check(pod: &Value, class: Option<&Value>) -> Result<(), String> {
    let said = at(pod, "spec.overhead").filter(|overhead| !overhead.is_null());
    match class.and_then(|class| at(class, "overhead")).filter(|overhead| overhead.is_object()) {
        Some(overhead) if !is_overhead(said, overhead) => Err(OTHER_OVERHEAD.to_owned()),
        Some(_) => Ok(()),
        None if said.is_some() => {
            Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                .to_owned())
        }
        None => Ok(()),
    }
}

fn is_overhead(said: Option<&Value>, overhead: &Value) -> bool {
    amounts::read(said) == amounts::read(overhead.get("podFixed"))
}

/// Without those that another one comprises.
fn merged(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (place, one) in all.iter().enumerate() {
        let by_later = |other: &Value| !same(Some(one), Some(other)) && comprises(other, one);
        if !merged.iter().any(|other| comprises(other, one)) && !all[place + 1..].iter().any(by_later) {
            merged.push(one.clone());
        }
    }
    merged
}

/// Whether whoever has the one toleration bears all that the other one bears.
fn comprises(one: &Value, other: &Value) -> bool {
    if same(Some(one), Some(other)) {
        return true;
    }
    let text = |of: &Value, member: &str| text_at(of, member);
    let [operator, of_other] = [one, other].map(|of| text(of, "operator"));
    let all_keys = text(one, "key").is_empty() && operator == "Exists";
    if text(one, "key") != text(other, "key") && !all_keys {
        return false;
    }
    let effect = text(one, "effect");
    if text(other, "effect") != effect && !effect.is_empty() {
        return false;
    }
    let seconds = |of: &Value| of.get("tolerationSeconds").and_then(Value::as_i64);
    if effect == "NoExecute"
        && let Some(most) = seconds(one)
        && seconds(other).is_none_or(|seconds| seconds > most)
    {
        return false;
    }
    match operator.as_str() {
        "" | "Equal" => of_other == "Equal" && text(one, "value") == text(other, "value"),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": spec})
    }

    #[test]
    fn a_pod_gets_what_its_class_says() {
        let class = json!({
            "handler": "h",
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {
                "nodeSelector": {"kata": "yes"},
                "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists", "effect": "NoExecute"}],
            },
        });
        let mut admitted = pod(json!({
            "nodeSelector": {"disk": "fast"},
            "tolerations": [
                {"key": "a", "operator": "Equal", "value": "1", "effect": "NoSchedule"},
                {"key": "b", "operator": "Exists", "effect": "NoExecute"},
            ],
        }));
        admit(&mut admitted, Some(&class)).unwrap();
        let spec = json!({
            "nodeSelector": {"disk": "fast", "kata": "yes"},
            "overhead": {"cpu": "250m"},
            "tolerations": [
                {"key": "b", "operator": "Exists", "effect": "NoExecute"},
                {"key": "a", "operator": "Exists"},
            ],
        });
        assert_eq!(admitted["spec"], spec);
        check(&admitted, Some(&class)).unwrap();
    }

    #[test]
    fn a_pod_that_says_otherwise_is_refused() {
        let overhead = json!({"overhead": {"podFixed": {"cpu": "1"}}});
        let selector = json!({"scheduling": {"nodeSelector": {"a": "b"}}});
        let without = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        let conflict = "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c";
        for (spec, class, why) in [
            (json!({}), None, ""),
            (json!({"overhead": {"cpu": "1"}}), None, without),
            (json!({"overhead": {"cpu": "1"}}), Some(&selector), without),
            (json!({"overhead": {"cpu": "1000m"}}), Some(&overhead), ""),
            (json!({"overhead": {"cpu": "2"}}), Some(&overhead), OTHER_OVERHEAD),
            (json!({"nodeSelector": {"a": "b"}}), Some(&selector), ""),
            (json!({"nodeSelector": {"a": "c"}}), Some(&selector), conflict),
        ] {
            let mut pod = pod(spec.clone());
            let found = admit(&mut pod, class).and_then(|()| check(&pod, class));
            assert_eq!(found.err().unwrap_or_default(), why, "{spec}");
        }
    }
}
