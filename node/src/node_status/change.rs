//! Whether a status says anything new. Pure.

use k8s_openapi::api::core::v1::NodeStatus;
use serde_json::Value;

use crate::resources::write_canonically;

/// Whether two statuses differ in more than the times of heartbeats, the notation of amounts, the order of conditions, and empty lists.
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
    for amounts in [&mut status.capacity, &mut status.allocatable].into_iter().flatten() {
        write_canonically(amounts);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_that_are_the_same_are_no_change() {
        let status = |cpu: &str| -> NodeStatus {
            let list = json!({ "cpu": cpu });
            serde_json::from_value(json!({ "capacity": list, "allocatable": list })).unwrap()
        };
        assert!(!has_changed(&status("2000m"), &status("2")));
        assert!(has_changed(&status("2000m"), &status("1")));
    }
}
