//! Nodes.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::field::FieldError;
use crate::names;
use crate::object::{self, default_to, members_at};
use crate::registry::fields::supported;
use crate::registry::strategy::{Context, Strategy};

/// The rules of nodes.
pub(crate) struct Node;

impl Strategy for Node {
    fn default(&self, node: &mut Value) {
        if let Some(capacity) = object::at(node, "status.capacity").cloned() {
            default_to(members_at(node, "status"), "allocatable", capacity);
        }
        // The one range and the list of all of them say the same.
        let one = object::text_at(node, "spec.podCIDR");
        let first = object::list_at(node, "spec.podCIDRs").first().cloned();
        match first {
            Some(first) if first != one.as_str() => {
                let spec = members_at(node, "spec");
                // What was changed is what is meant.
                if one.is_empty() {
                    spec.insert("podCIDR".to_owned(), first);
                } else {
                    spec.insert("podCIDRs".to_owned(), json!([one]));
                }
            }
            None if !one.is_empty() => {
                members_at(node, "spec").insert("podCIDRs".to_owned(), json!([one]));
            }
            _ => {}
        }
    }

    fn validate(&self, _: &Context<'_>, node: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (at, taint) in object::list_at(node, "spec.taints").iter().enumerate() {
            // Upstream says where they once were.
            let path = format!("metadata.taints[{at}]");
            let [key, value] = ["key", "value"].map(|name| object::text_at(taint, name));
            errors.extend(FieldError::each_invalid(
                &format!("{path}.key"),
                &key,
                names::qualified_name(&key),
            ));
            errors.extend(FieldError::each_invalid(
                &format!("{path}.value"),
                &value,
                names::label_value(&value),
            ));
            if object::text_at(taint, "effect").is_empty() {
                errors.push(FieldError::required(format!("{path}.effect"), ""));
            }
            let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            supported(taint, &path, "effect", &effects, &mut errors);
        }
        for (at, range) in object::list_at(node, "spec.podCIDRs").iter().filter_map(Value::as_str).enumerate()
        {
            let parsed = range.split_once('/').and_then(|(address, length)| {
                let most = if address.parse::<IpAddr>().ok()?.is_ipv4() { 32 } else { 128 };
                length.parse::<u8>().ok().filter(|length| *length <= most)
            });
            if parsed.is_none() {
                let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
                errors.push(FieldError::invalid(format!("spec.podCIDRs[{at}]"), range, why));
            }
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, node: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, node);
        let before = object::list_at(old, "spec.podCIDRs");
        if !before.is_empty() && before != object::list_at(node, "spec.podCIDRs") {
            let why = "node updates may not change podCIDR except from \"\" to valid";
            errors.push(FieldError::forbidden("spec.podCIDRs", why));
        }
        let id = "spec.providerID";
        if !object::text_at(old, id).is_empty() && object::text_at(old, id) != object::text_at(node, id) {
            let why = "node updates may not change providerID except from \"\" to valid";
            errors.push(FieldError::forbidden(id, why));
        }
        errors
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
