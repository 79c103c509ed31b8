//! Nodes.

use serde_json::{Value, json};

use crate::object::{self, default_to, members_at};
use crate::refusal::Result;
use crate::registry::strategy::{Context, Strategy};

/// The rules of nodes.
pub(crate) struct Node;

impl Strategy for Node {
    fn default(&self, node: &mut Value) {
        if let Some(capacity) = object::at(node, "status.capacity").cloned() {
            default_to(members_at(node, "status"), "allocatable", capacity);
        }
    }

    /// A node is not ready before it says so; upstream's admission taints it.
    fn prepare_for_create(&self, _: &Context<'_>, node: &mut Value) -> Result<()> {
        const KEY: &str = "node.kubernetes.io/not-ready";
        let taints = members_at(node, "spec").entry("taints").or_insert_with(|| json!([]));
        if let Value::Array(taints) = taints
            && !taints.iter().any(|taint| taint["key"] == KEY && taint["effect"] == "NoSchedule")
        {
            taints.push(json!({"key": KEY, "effect": "NoSchedule"}));
        }
        Ok(())
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
