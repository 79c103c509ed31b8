//! Nodes.

use serde_json::Value;

use crate::object::{self, default_to, members_at};
use crate::registry::strategy::Strategy;

/// The rules of nodes.
pub(crate) struct Node;

impl Strategy for Node {
    fn default(&self, node: &mut Value) {
        if let Some(capacity) = object::at(node, "status.capacity").cloned() {
            default_to(members_at(node, "status"), "allocatable", capacity);
        }
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }

    fn field(&self, node: &Value, field: &str) -> String {
        match field {
            "spec.unschedulable" => object::is_true(node, field).to_string(),
            field => object::text_at(node, field),
        }
    }
}
