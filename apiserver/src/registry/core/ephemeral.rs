//! Containers that are added to a pod while it runs, to look at it (`pods/ephemeralcontainers`).

use serde_json::Value;

use crate::field::FieldError;
use crate::meta::is_mirror;
use crate::object::{self, list_at, members_at, text_at};
use crate::registry::pod_spec::validate_spec;

const LIST: &str = "spec.ephemeralContainers";
/// What containers have that such ones may not, in upstream's order.
const UNFIT: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];
const WHY_UNFIT: &str = "cannot be set for an Ephemeral Container";

/// The old state with the ephemeral containers of the new one.
pub(super) fn prepare(pod: &Value, old: &Value) -> Value {
    let mut kept = old.clone();
    let spec = members_at(&mut kept, "spec");
    match pod["spec"].get("ephemeralContainers") {
        Some(containers) => spec.insert("ephemeralContainers".to_owned(), containers.clone()),
        None => spec.remove("ephemeralContainers"),
    };
    kept
}

/// What is wrong with a state that [`prepare`] left.
pub(super) fn validate(pod: &Value, old: &Value) -> Vec<FieldError> {
    if is_mirror(old) {
        return vec![FieldError::forbidden("[]", "static pods do not support ephemeral containers")];
    }
    let mut errors = validate_spec(&pod["spec"], "spec");
    let others = || {
        ["containers", "initContainers"]
            .into_iter()
            .flat_map(|list| list_at(&pod["spec"], list))
            .map(|container| text_at(container, "name"))
    };
    for (at, container) in list_at(pod, LIST).iter().enumerate() {
        let path = format!("{LIST}[{at}]");
        let target = text_at(container, "targetContainerName");
        if !target.is_empty() && !others().any(|name| name == target) {
            errors.push(FieldError::not_found(format!("{path}.targetContainerName"), target));
        }
        for unfit in UNFIT.into_iter().filter(|unfit| !object::same(container.get(*unfit), None)) {
            errors.push(FieldError::forbidden(format!("{path}.{unfit}"), WHY_UNFIT));
        }
        for (at, mount) in list_at(container, "volumeMounts").iter().enumerate() {
            for unfit in
                ["subPath", "subPathExpr"].into_iter().filter(|name| !text_at(mount, name).is_empty())
            {
                errors.push(FieldError::forbidden(format!("{path}.volumeMounts[{at}].{unfit}"), WHY_UNFIT));
            }
        }
    }
    for before in list_at(old, LIST) {
        let name = text_at(before, "name");
        let what = match list_at(pod, LIST).iter().find(|container| container["name"] == before["name"]) {
            None => "removed",
            Some(now) if !object::same(Some(now), Some(before)) => "changed",
            Some(_) => continue,
        };
        let why = format!("existing ephemeral containers {name:?} may not be {what}\n");
        errors.push(FieldError::forbidden(LIST, why));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(ephemeral: Value) -> Value {
        json!({
            "metadata": {"name": "p"},
            "spec": {
                "containers": [{"name": "a", "image": "i"}],
                "initContainers": [{"name": "i", "image": "i"}],
                "volumes": [{"name": "v", "emptyDir": {}}],
                "ephemeralContainers": ephemeral,
            },
        })
    }

    fn wrong(old: &Value, new: &Value) -> Vec<String> {
        validate(&prepare(new, old), old).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn containers_are_added_and_nothing_else_changes() {
        let old = pod(json!([{"name": "d", "image": "i"}]));
        let mount = json!([{"name": "v", "mountPath": "/x"}]);
        let target = json!({"name": "e", "image": "i", "targetContainerName": "a", "volumeMounts": mount});
        let mut new = pod(json!([target, {"name": "d", "image": "i"}]));
        new["metadata"]["labels"] = json!({"a": "b"});
        new["spec"]["containers"][0]["image"] = "other".into();
        let kept = prepare(&new, &old);
        assert_eq!(kept["metadata"], old["metadata"]);
        assert_eq!(kept["spec"]["containers"], old["spec"]["containers"]);
        assert_eq!(kept["spec"]["ephemeralContainers"], new["spec"]["ephemeralContainers"]);
        assert_eq!(wrong(&old, &new), [""; 0]);
    }

    #[test]
    fn what_is_there_stays_as_it_is() {
        let old = pod(json!([{"name": "d", "image": "i"}]));
        let stays = |what: &str| {
            [format!("{LIST}: Forbidden: existing ephemeral containers \"d\" may not be {what}\n")]
        };
        assert_eq!(wrong(&old, &pod(json!([]))), stays("removed"));
        assert_eq!(wrong(&old, &pod(json!([{"name": "d", "image": "j"}]))), stays("changed"));
    }

    #[test]
    fn they_are_no_part_of_the_pods_work() {
        let first = format!("{LIST}[0]");
        let mounted = json!([{"name": "v", "mountPath": "/x", "subPath": "y"}]);
        for (member, value, why) in [
            ("name", json!("a"), format!("{first}.name: Duplicate value: \"a\"")),
            ("image", json!(""), format!("{first}.image: Required value")),
            ("targetContainerName", json!("d"), format!("{first}.targetContainerName: Not found: \"d\"")),
            ("restartPolicy", json!("Always"), format!("{first}.restartPolicy: Forbidden: {WHY_UNFIT}")),
            (
                "lifecycle",
                json!({"preStop": {"sleep": {"seconds": 1}}}),
                format!("{first}.lifecycle: Forbidden: {WHY_UNFIT}"),
            ),
            ("volumeMounts", mounted, format!("{first}.volumeMounts[0].subPath: Forbidden: {WHY_UNFIT}")),
        ] {
            let mut new = pod(json!([{"name": "d", "image": "i"}]));
            new["spec"]["ephemeralContainers"][0][member] = value;
            assert_eq!(wrong(&pod(json!([])), &new), [why], "{member}");
        }
        let mut mirror = pod(json!([]));
        mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": ""});
        let why = "[]: Forbidden: static pods do not support ephemeral containers";
        assert_eq!(wrong(&mirror, &pod(json!([{"name": "d", "image": "i"}]))), [why]);
    }
}
