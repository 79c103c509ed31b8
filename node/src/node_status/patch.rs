//! The patch that turns one Node into another. Pure.

use k8s_openapi::api::core::v1::Node;
use serde_json::{Map, Value, json};

use crate::status_manager::strategic::diff;

/// Lists of a Node whose items are merged, and by which member. Addresses are not among them: the API merges them by their
/// type, though a node has several of one; they are replaced as a whole.
const MERGED: [(&str, &str); 2] = [("conditions", "type"), ("ownerReferences", "uid")];

/// The strategic merge patch of metadata and status.
///
/// # Errors
/// A Node that can't be written as JSON, which is a mistake in the program.
pub(super) fn status_patch(old: &Node, new: &Node) -> Result<Value, serde_json::Error> {
    let part = |node: &Node, name: &str| -> Result<Map<String, Value>, serde_json::Error> {
        Ok(match serde_json::to_value(node)?.get_mut(name).map(Value::take) {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        })
    };
    let metadata = diff(&part(old, "metadata")?, &part(new, "metadata")?, &MERGED);
    let (before, after) = (part(old, "status")?, part(new, "status")?);
    let mut status = diff(&before, &after, &MERGED);
    if let Some(Value::Array(addresses)) = status.get_mut("addresses")
        && before.get("addresses").and_then(Value::as_array).is_some_and(|before| !before.is_empty())
    {
        addresses.push(json!({ "$patch": "replace" }));
    }
    let mut patch = json!({ "status": status });
    if !metadata.is_empty() {
        patch["metadata"] = metadata.into();
    }
    Ok(patch)
}
