//! Whether a status says anything new. Pure.

use k8s_openapi::api::core::v1::NodeStatus;
use serde_json::Value;

/// Whether two statuses differ in more than the times of heartbeats, the order of conditions, and empty lists.
pub(super) fn has_changed(old: &NodeStatus, new: &NodeStatus) -> bool {
    normal(old) != normal(new)
}

/// `None` for a status that is no JSON, which there is not.
fn normal(status: &NodeStatus) -> Option<Value> {
    let mut status = status.clone();
    for condition in status.conditions.iter_mut().flatten() {
        condition.last_heartbeat_time = None;
    }
    if let Some(conditions) = &mut status.conditions {
        conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
    }
    let mut value = serde_json::to_value(&status).ok()?;
    without_empty(&mut value);
    Some(value)
}

fn without_empty(value: &mut Value) {
    if let Value::Object(members) = value {
        members.values_mut().for_each(without_empty);
        members.retain(|_, member| match member {
            Value::Array(items) => !items.is_empty(),
            Value::Object(members) => !members.is_empty(),
            Value::Null => false,
            _ => true,
        });
    }
}
