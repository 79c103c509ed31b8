//! Kinds of `discovery.k8s.io`.

use serde_json::Value;

use super::fields::each;
use super::strategy::{Context, Strategy};
use crate::field::FieldError;
use crate::object::{self, default_text, default_to, members};

/// The rules of endpoint slices.
pub(crate) struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn default(&self, slice: &mut Value) {
        each(slice, "ports", |port| {
            let port = members(port);
            default_to(port, "name", "");
            default_text(port, "protocol", "TCP");
        });
    }

    fn validate(&self, _: &Context<'_>, slice: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let kind = object::text_at(slice, "addressType");
        let kinds = ["FQDN", "IPv4", "IPv6"];
        if kind.is_empty() {
            errors.push(FieldError::required("addressType", ""));
        } else if !kinds.contains(&kind.as_str()) {
            errors.push(FieldError::not_supported("addressType", kind, &kinds));
        }
        let mut names = Vec::new();
        for (at, port) in object::list_at(slice, "ports").iter().enumerate() {
            let name = object::text_at(port, "name");
            if names.contains(&name) {
                errors.push(FieldError::duplicate(format!("ports[{at}].name"), name));
            } else {
                names.push(name);
            }
        }
        for (at, endpoint) in object::list_at(slice, "endpoints").iter().enumerate() {
            if object::list_at(endpoint, "addresses").is_empty() {
                let why = "must contain at least 1 address";
                errors.push(FieldError::required(format!("endpoints[{at}].addresses"), why));
            }
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, slice: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, slice);
        if slice["addressType"] != old["addressType"] {
            errors.push(FieldError::immutable("addressType", &slice["addressType"]));
        }
        errors
    }
}
