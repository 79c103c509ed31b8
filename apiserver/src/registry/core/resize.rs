//! What a container is given may change while it runs (`pods/resize`).

use serde_json::Value;

use crate::field::FieldError;
use crate::meta::is_mirror;
use crate::object::{self, at, list_at, members, members_at, str_at, text_at};
use crate::registry::pod_spec::{qos_class, validate_spec};

/// The lists of containers that can be resized.
const LISTS: [&str; 2] = ["initContainers", "containers"];
/// What of a container's resources can change.
const MUTABLE: [&str; 2] = ["cpu", "memory"];

/// The old state with the resources that the new one asks for. Where containers are others than before, the new state:
/// [`validate`] refuses it.
pub(super) fn prepare(pod: &Value, old: &Value) -> Value {
    if !misplaced(pod, old).is_empty() {
        return pod.clone();
    }
    let mut kept = old.clone();
    // The pod's own.
    object::carry_over(&mut kept["spec"], &pod["spec"], "resources");
    for list in LISTS {
        let Some(containers) = kept["spec"].get_mut(list).and_then(Value::as_array_mut) else { continue };
        for (container, wanted) in containers.iter_mut().zip(list_at(&pod["spec"], list)) {
            object::carry_over(container, wanted, "resources");
            object::carry_over(container, wanted, "resizePolicy");
        }
    }
    kept
}

/// What is wrong with a state that [`prepare`] left.
pub(super) fn validate(pod: &Value, old: &Value) -> Vec<FieldError> {
    if is_mirror(old) {
        return vec![FieldError::forbidden("[]", "static pods cannot be resized")];
    }
    if str_at(old, "spec.os.name") == Some("windows") {
        return vec![FieldError::forbidden("[]", "windows pods cannot be resized")];
    }
    let mut errors = validate_spec(&pod["spec"], "spec");
    let class = match text_at(old, "status.qosClass") {
        unset if unset.is_empty() => qos_class(&old["spec"]).to_owned(),
        class => class,
    };
    if qos_class(&pod["spec"]) != class {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid("spec", class, why));
    }
    // What the node says of a container that runs tells whether it can resize it.
    let mut statuses = list_at(old, "status.containerStatuses").iter();
    let running = statuses.find(|status| at(status, "state.running").is_some_and(Value::is_object));
    if running.is_some_and(|status| !status.get("resources").is_some_and(Value::is_object)) {
        errors.push(FieldError::forbidden("spec", "Pod running on node without support for resize"));
    }
    let misplaced = misplaced(pod, old);
    if !misplaced.is_empty() {
        errors.extend(misplaced);
        return errors;
    }
    for list in LISTS {
        for (at, (new, old)) in pairs(pod, old, list).enumerate() {
            for kind in ["requests", "limits"] {
                let amounts = |container: &Value| container["resources"][kind].as_object().cloned();
                let (new, old) = (amounts(new).unwrap_or_default(), amounts(old).unwrap_or_default());
                if old.keys().any(|name| !new.contains_key(name)) {
                    let field = format!("spec.{list}[{at}].resources.{kind}");
                    errors.push(FieldError::forbidden(field, format!("resource {kind} cannot be removed")));
                }
            }
        }
    }
    for (new, old) in pairs(pod, old, "containers") {
        if !object::same(Some(&as_before(new, old)), Some(old)) {
            errors.push(FieldError::forbidden("spec", "only cpu and memory resources are mutable"));
        }
    }
    for (at, (new, old)) in pairs(pod, old, "initContainers").enumerate() {
        let field = format!("spec.initContainers[{at}]");
        if !object::same(Some(&as_before(new, old)), Some(old)) {
            let why = "only cpu and memory resources for init or sidecar containers are mutable";
            errors.push(FieldError::forbidden(field.clone(), why));
        }
        let restarts =
            list_at(new, "resizePolicy").iter().any(|policy| policy["restartPolicy"] == "RestartContainer");
        let modified = !object::same(Some(new), Some(old));
        if modified && restarts && str_at(new, "restartPolicy") != Some("Always") {
            let why =
                "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            errors.push(FieldError::forbidden(field, why));
        }
    }
    errors
}

fn pairs<'a>(pod: &'a Value, old: &'a Value, list: &str) -> impl Iterator<Item = (&'a Value, &'a Value)> {
    list_at(&pod["spec"], list).iter().zip(list_at(&old["spec"], list))
}

/// A container with what may change put back to what it was.
fn as_before(new: &Value, old: &Value) -> Value {
    let mut new = new.clone();
    for kind in ["requests", "limits"] {
        let mut amounts = new["resources"][kind].clone();
        for name in MUTABLE {
            match old["resources"][kind].get(name) {
                Some(before) => drop(members(&mut amounts).insert(name.to_owned(), before.clone())),
                None => drop(members(&mut amounts).remove(name)),
            }
        }
        members_at(&mut new, "resources").insert(kind.to_owned(), amounts);
    }
    new
}

/// What is said of containers that are not where they were.
fn misplaced(pod: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for list in ["containers", "initContainers"] {
        let (new, old) = (list_at(&pod["spec"], list), list_at(&old["spec"], list));
        if new.len() != old.len() {
            let why = format!("{list} may not be added or removed on resize");
            errors.push(FieldError::forbidden(format!("spec.{list}"), why));
            continue;
        }
        for (at, _) in new.iter().zip(old).enumerate().filter(|(_, (new, old))| new["name"] != old["name"]) {
            let why = format!("{list} may not be renamed or reordered on resize");
            errors.push(FieldError::forbidden(format!("spec.{list}[{at}].name"), why));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}});
        json!({
            "metadata": {"name": "p", "labels": {"a": "b"}},
            "spec": {
                "restartPolicy": "Always",
                "containers": [
                    {"name": "a", "image": "i", "resources": resources},
                    {"name": "b", "image": "i", "resources": {}},
                ],
                "initContainers": [{"name": "i", "image": "i", "resources": {}}],
            },
            "status": {"qosClass": "Burstable"},
        })
    }

    /// What becomes of a change at a path: the new value, or what is wrong.
    fn resized(old: &Value, pointer: &str, value: Value) -> Result<Value, Vec<String>> {
        let mut new = old.clone();
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        new.pointer_mut(parent).unwrap()[member] = value;
        let kept = prepare(&new, old);
        let errors = validate(&kept, old);
        if errors.is_empty() { Ok(kept) } else { Err(errors.iter().map(ToString::to_string).collect()) }
    }

    #[test]
    fn resources_are_all_that_changes() {
        let mut changed = pod();
        for (pointer, value) in [
            ("/metadata/labels/a", json!("c")),
            ("/spec/containers/0/image", json!("other")),
            ("/spec/containers/0/resources/requests/cpu", json!("500m")),
            ("/spec/initContainers/0/resources", json!({"requests": {"memory": "1Mi"}})),
            ("/status/qosClass", json!("Guaranteed")),
        ] {
            *changed.pointer_mut(pointer).unwrap() = value;
        }
        let kept = prepare(&changed, &pod());
        let mut expected = pod();
        expected["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m".into();
        expected["spec"]["initContainers"][0]["resources"] = json!({"requests": {"memory": "1Mi"}});
        assert_eq!(kept, expected);
        assert_eq!(validate(&kept, &pod()), []);
    }

    #[test]
    fn what_resizing_can_not_change_is_refused() {
        let only = "spec: Forbidden: only cpu and memory resources are mutable";
        let a = "/spec/containers/0";
        for (pointer, value, why) in [
            (format!("{a}/resources/requests/ephemeral-storage"), json!("1Gi"), only),
            (
                format!("{a}/resizePolicy"),
                json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}]),
                only,
            ),
            (
                format!("{a}/resources/limits"),
                json!({}),
                "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
            ),
            (
                format!("{a}/resources/requests"),
                json!({"cpu": "1"}),
                "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
            ),
            (
                format!("{a}/name"),
                json!("q"),
                "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize",
            ),
            (
                "/spec/initContainers".to_owned(),
                json!([]),
                "spec.initContainers: Forbidden: initContainers may not be added or removed on resize",
            ),
            (
                "/spec/initContainers/0/resources".to_owned(),
                json!({"requests": {"ephemeral-storage": "1"}}),
                "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are \
                 mutable",
            ),
        ] {
            assert_eq!(resized(&pod(), &pointer, value).unwrap_err(), [why], "{pointer}");
        }
    }

    #[test]
    fn some_pods_are_not_resized_at_all() {
        let cpu = "/spec/containers/0/resources/requests/cpu";
        let running = json!([{"name": "a", "state": {"running": {}}}]);
        for (pointer, value, why) in [
            (
                "/metadata/annotations",
                json!({"kubernetes.io/config.mirror": ""}),
                "[]: Forbidden: static pods cannot be resized",
            ),
            ("/spec/os", json!({"name": "windows"}), "[]: Forbidden: windows pods cannot be resized"),
            (
                "/status/containerStatuses",
                running,
                "spec: Forbidden: Pod running on node without support for resize",
            ),
            (
                "/status/qosClass",
                json!("Guaranteed"),
                "spec: Invalid value: \"Guaranteed\": Pod QOS Class may not change as a result of resizing",
            ),
        ] {
            let mut old = pod();
            let (parent, member) = pointer.rsplit_once('/').unwrap();
            old.pointer_mut(parent).unwrap()[member] = value;
            assert_eq!(resized(&old, cpu, json!("500m")).unwrap_err(), [why], "{pointer}");
        }
        let mut best_effort = pod();
        best_effort["spec"]["containers"][0]["resources"] = json!({});
        best_effort["status"]["qosClass"] = "BestEffort".into();
        let resources = json!({"requests": {"cpu": "1"}});
        resized(&best_effort, "/spec/containers/0/resources", resources).unwrap_err();
    }
}
