//! Network policies and ingresses.

use serde_json::{Value, json};

use super::fields::{each, supported};
use super::strategy::{Context, Strategy};
use crate::field::FieldError;
use crate::names;
use crate::object::{self, default_text, default_to, members, members_at};

/// The rules of network policies.
pub(crate) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn default(&self, policy: &mut Value) {
        let spec = members_at(policy, "spec");
        let mut types = vec![json!("Ingress")];
        if spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty()) {
            types.push(json!("Egress"));
        }
        default_to(spec, "policyTypes", types);
        for direction in ["ingress", "egress"] {
            if let Some(Value::Array(rules)) = spec.get_mut(direction) {
                for rule in rules {
                    each(rule, "ports", |port| default_text(members(port), "protocol", "TCP"));
                }
            }
        }
    }
}

/// The rules of ingresses.
pub(crate) struct Ingress;

impl Strategy for Ingress {
    fn validate(&self, _: &Context<'_>, ingress: &Value) -> Vec<FieldError> {
        let spec = &ingress["spec"];
        let mut errors = Vec::new();
        let rules = object::list_at(spec, "rules");
        if rules.is_empty() && spec["defaultBackend"].is_null() {
            let why = "either `defaultBackend` or `rules` must be specified";
            errors.push(FieldError::invalid("spec", Value::Null, why));
        }
        for (at, rule) in rules.iter().enumerate() {
            let path = format!("spec.rules[{at}]");
            let host = object::text_at(rule, "host");
            let plain = host.strip_prefix("*.").unwrap_or(&host);
            if !host.is_empty() {
                errors.extend(FieldError::each_invalid(
                    &format!("{path}.host"),
                    &host,
                    names::subdomain(plain),
                ));
            }
            let paths = object::list_at(rule, "http.paths");
            if !rule["http"].is_null() && paths.is_empty() {
                errors.push(FieldError::required(format!("{path}.http.paths"), ""));
            }
            for (at, way) in paths.iter().enumerate() {
                validate_path(way, &format!("{path}.http.paths[{at}]"), &mut errors);
            }
        }
        errors
    }
}

fn validate_path(way: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let kinds = ["Exact", "ImplementationSpecific", "Prefix"];
    let kind = object::text_at(way, "pathType");
    if kind.is_empty() {
        errors.push(FieldError::required(format!("{path}.pathType"), "pathType must be specified"));
        return;
    }
    supported(way, path, "pathType", &kinds, errors);
    let text = object::text_at(way, "path");
    if kind != "ImplementationSpecific" && !text.starts_with('/') {
        errors.push(FieldError::invalid(format!("{path}.path"), text, "must be an absolute path"));
    }
    let service = &way["backend"]["service"];
    if service.is_null() && way["backend"]["resource"].is_null() {
        let why = "must specify one of `resource` or `service`";
        errors.push(FieldError::required(format!("{path}.backend"), why));
    } else if !service.is_null() && object::text_at(service, "name").is_empty() {
        errors.push(FieldError::required(format!("{path}.backend.service.name"), ""));
    }
}
