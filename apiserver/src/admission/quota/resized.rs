//! What containers have whose pod is being resized.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::admission::amounts::{self, Amounts};
use crate::object::{at, list_at, str_at, text_at};

/// The spec of a pod, where containers ask for what they have as far as that is more: what is asked for is theirs, and what
/// they had is theirs until they have given it back. What can't be had at all counts no more.
pub(super) fn spec_of(pod: &Value) -> Cow<'_, Value> {
    let spec = &pod["spec"];
    let statuses = || {
        let of_both = ["status.containerStatuses", "status.initContainerStatuses"];
        of_both
            .into_iter()
            .flat_map(|path| list_at(pod, path))
            .filter(|status| status["resources"].is_object())
    };
    if statuses().next().is_none() {
        return Cow::Borrowed(spec);
    }
    let conditions = list_at(pod, "status.conditions");
    let pending = conditions.iter().find(|condition| str_at(condition, "type") == Some("PodResizePending"));
    let infeasible = pending.is_some_and(|pending| str_at(pending, "reason") == Some("Infeasible"));
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let goes_on = list == "containers" || str_at(container, "restartPolicy") == Some("Always");
            let name = text_at(container, "name");
            let status = statuses().find(|status| str_at(status, "name") == Some(&name));
            if let Some(status) = status.filter(|_| goes_on) {
                container["resources"] = resources_of(container, status, infeasible);
            }
        }
    }
    Cow::Owned(spec)
}

fn resources_of(container: &Value, status: &Value, infeasible: bool) -> Value {
    let of_kind = |kind: &str| {
        let path = format!("resources.{kind}");
        let mut most = if infeasible { Amounts::new() } else { amounts::read(at(container, &path)) };
        amounts::raise(&mut most, &amounts::read(at(status, &path)));
        most
    };
    let mut requests = of_kind("requests");
    amounts::raise(&mut requests, &amounts::read(at(status, "allocatedResources")));
    json!({"requests": amounts::written(&requests), "limits": amounts::written(&of_kind("limits"))})
}
