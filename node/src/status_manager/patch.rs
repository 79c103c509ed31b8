//! The patch that turns one status into another, as upstream writes it. Pure.

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Map, Value, json};

use super::strategic::diff;

/// Lists of a pod's status whose items are merged, and by which member.
const MERGED: [(&str, &str); 4] =
    [("conditions", "type"), ("hostIPs", "ip"), ("podIPs", "ip"), ("resourceClaimStatuses", "name")];

/// The strategic merge patch of the pod's status, with the uid as its precondition; `None` if nothing changes.
///
/// # Errors
/// A status that can't be written as JSON, which is a mistake in the program.
pub(super) fn status_patch(
    uid: &str,
    old: &PodStatus,
    new: &PodStatus,
) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let changes = diff(&as_go_writes(old)?, &as_go_writes(new)?, &MERGED);
    if changes.is_empty() {
        return Ok(None);
    }
    let patch = sorted(json!({ "metadata": { "uid": uid }, "status": changes }));
    let text = serde_json::to_string(&patch)?;
    // Go's JSON hides from HTML what could begin a tag. Outside of texts none of these occurs.
    let text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    Ok(Some(text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029").into_bytes()))
}

/// The JSON that upstream's struct gives: some fields are written though they are not set, empty ones are not.
fn as_go_writes(status: &PodStatus) -> Result<Map<String, Value>, serde_json::Error> {
    let Value::Object(mut status) = serde_json::to_value(status)? else { return Ok(Map::new()) };
    for condition in items(&mut status, "conditions") {
        for time in ["lastProbeTime", "lastTransitionTime"] {
            condition.entry(time).or_insert(Value::Null);
        }
        condition.retain(|name, value| {
            !is_unset(name, value, &["type", "status", "lastProbeTime", "lastTransitionTime"])
        });
    }
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in items(&mut status, list) {
            for state in ["state", "lastState"] {
                let state = container.entry(state).or_insert_with(|| json!({}));
                write_times(state);
            }
            container.retain(|name, value| {
                !is_unset(
                    name,
                    value,
                    &[
                        "name",
                        "ready",
                        "restartCount",
                        "image",
                        "imageID",
                        "state",
                        "lastState",
                        "started",
                        "resources",
                    ],
                )
            });
        }
    }
    status.retain(|name, value| !is_unset(name, value, &["resources"]));
    Ok(status)
}

fn items<'a>(
    object: &'a mut Map<String, Value>,
    list: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Stamps stand in the states that have them, set or not.
fn write_times(state: &mut Value) {
    for (state_name, times) in [("running", &["startedAt"][..]), ("terminated", &["startedAt", "finishedAt"])]
    {
        if let Some(state) = state.get_mut(state_name).and_then(Value::as_object_mut) {
            for time in times {
                state.entry(*time).or_insert(Value::Null);
            }
        }
    }
}

/// Whether Go leaves a member out.
fn is_unset(name: &str, value: &Value, always: &[&str]) -> bool {
    let empty = match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    };
    empty && !always.contains(&name)
}

/// Members in the order of their names, as Go writes maps, whatever the map keeps.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(members.into_iter().map(|(name, value)| (name, sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
