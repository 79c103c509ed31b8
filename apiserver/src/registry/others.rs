//! Kinds of other groups with a rule or two.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::fields::{each, supported};
use super::priority;
use super::rollout::{at_most_all, validate_count};
use super::strategy::{Context, Strategy};
use crate::field::FieldError;
use crate::names;
use crate::object::{self, default_text, default_to, members, members_at};
use crate::refusal::Result;

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

/// The rules of leases.
pub(crate) struct Lease;

impl Strategy for Lease {
    fn validate(&self, _: &Context<'_>, lease: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(seconds) =
            object::int_at(lease, "spec.leaseDurationSeconds").filter(|seconds| *seconds <= 0)
        {
            errors.push(FieldError::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
        }
        if let Some(count) = object::int_at(lease, "spec.leaseTransitions").filter(|count| *count < 0) {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("spec.leaseTransitions", count, why));
        }
        errors
    }
}

/// The rules of storage classes.
pub(crate) struct StorageClass;

impl Strategy for StorageClass {
    fn default(&self, class: &mut Value) {
        default_text(members(class), "reclaimPolicy", "Delete");
        default_text(members(class), "volumeBindingMode", "Immediate");
    }

    fn validate(&self, _: &Context<'_>, class: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if object::text_at(class, "provisioner").is_empty() {
            errors.push(FieldError::required("provisioner", ""));
        }
        let word = |name: &str, words: &[&str], errors: &mut Vec<FieldError>| {
            let value = object::text_at(class, name);
            if !value.is_empty() && !words.contains(&value.as_str()) {
                errors.push(FieldError::not_supported(name, value, words));
            }
        };
        word("reclaimPolicy", &["Delete", "Retain"], &mut errors);
        word("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], &mut errors);
        errors
    }
}

/// The rules of runtime classes.
pub(crate) struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn validate(&self, _: &Context<'_>, class: &Value) -> Vec<FieldError> {
        let handler = object::text_at(class, "handler");
        FieldError::each_invalid("handler", &handler, names::label(&handler)).collect()
    }

    fn validate_update(&self, _: &Context<'_>, class: &Value, old: &Value) -> Vec<FieldError> {
        let changed = class["handler"] != old["handler"];
        changed.then(|| FieldError::immutable("handler", &class["handler"])).into_iter().collect()
    }
}

/// The rules of priority classes.
pub(crate) struct PriorityClass;

impl Strategy for PriorityClass {
    fn default(&self, class: &mut Value) {
        default_text(members(class), "preemptionPolicy", "PreemptLowerPriority");
    }

    fn prepare_for_create(&self, context: &Context<'_>, class: &mut Value) -> Result<()> {
        priority::check_default(context, class)
    }

    fn prepare_for_update(&self, context: &Context<'_>, class: &mut Value, _: &Value) -> Result<()> {
        priority::check_default(context, class)
    }

    fn validate(&self, _: &Context<'_>, class: &Value) -> Vec<FieldError> {
        priority::validate_class(class)
    }

    fn validate_update(&self, _: &Context<'_>, class: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if class["value"] != old["value"] {
            errors.push(FieldError::forbidden("value", "may not be changed in an update."));
        }
        errors
    }
}

/// The rules of disruption budgets.
pub(crate) struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn validate(&self, _: &Context<'_>, budget: &Value) -> Vec<FieldError> {
        let spec = &budget["spec"];
        let mut errors = Vec::new();
        if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
            let why = "minAvailable and maxUnavailable cannot be both set";
            errors.push(FieldError::invalid("spec", spec.clone(), why));
        }
        for name in ["minAvailable", "maxUnavailable"] {
            errors.extend(validate_count(&spec[name], &format!("spec.{name}")));
            errors.extend(at_most_all(&spec[name], &format!("spec.{name}")));
        }
        supported(
            spec,
            "spec",
            "unhealthyPodEvictionPolicy",
            &["AlwaysAllow", "IfHealthyBudget"],
            &mut errors,
        );
        errors
    }
}

/// What those say of a signing request who approve it, or do not.
const VERDICTS: [&str; 2] = ["Approved", "Denied"];

fn conditions<'a>(request: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    object::list_at(request, "status.conditions").iter().filter(move |condition| condition["type"] == kind)
}

/// Puts back the conditions of a type, unless there are more or fewer of them.
fn keep_conditions(request: &mut Value, old: &Value, kind: &str) {
    let old: Vec<Value> = conditions(old, kind).cloned().collect();
    if conditions(request, kind).count() != old.len() {
        return;
    }
    let mut old = old.into_iter();
    each(&mut request["status"], "conditions", |condition| {
        if condition["type"] == kind
            && let Some(old) = old.next()
        {
            *condition = old;
        }
    });
}

/// The rules of signing requests.
pub(crate) struct CertificateSigningRequest;

impl Strategy for CertificateSigningRequest {
    fn validate(&self, _: &Context<'_>, request: &Value) -> Vec<FieldError> {
        let text = object::text_at(request, "spec.request");
        let pem = STANDARD.decode(&text).unwrap_or_default();
        let mut errors = Vec::new();
        if !pem.trim_ascii_start().starts_with(b"-----BEGIN CERTIFICATE REQUEST-----") {
            let why = "PEM block type must be CERTIFICATE REQUEST";
            errors.push(FieldError::invalid("spec.request", text, why));
        }
        if object::list_at(request, "spec.usages").is_empty() {
            errors.push(FieldError::required("spec.usages", ""));
        }
        let signer = object::text_at(request, "spec.signerName");
        if signer.is_empty() {
            errors.push(FieldError::required("spec.signerName", ""));
        } else if !signer.contains('/') {
            let why = "must be a fully qualified domain and path of the form \"example.com/signer-name\"";
            errors.push(FieldError::invalid("spec.signerName", signer, why));
        }
        errors
    }

    fn prepare_for_create(&self, _: &Context<'_>, request: &mut Value) -> Result<()> {
        // Nobody approves what is not there yet.
        members(request).remove("status");
        Ok(())
    }

    /// What was asked for is what is approved, and signed.
    fn prepare_for_update(&self, _: &Context<'_>, request: &mut Value, old: &Value) -> Result<()> {
        object::carry_over(request, old, "spec");
        Ok(())
    }

    fn validate_update(&self, _: &Context<'_>, _: &Value, _: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn prepare_through(&self, context: &Context<'_>, request: &mut Value, old: &Value) {
        let mut kept = old.clone();
        object::carry_over(&mut kept, request, "metadata");
        let status = &request["status"];
        if context.subresource == "approval" {
            let conditions = status["conditions"].clone();
            members_at(&mut kept, "status").insert("conditions".to_owned(), conditions);
        } else {
            object::carry_over(&mut kept, request, "status");
            for verdict in VERDICTS {
                keep_conditions(&mut kept, old, verdict);
            }
        }
        *request = kept;
    }

    fn validate_through(&self, context: &Context<'_>, request: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let count = |of: &Value, kind: &str| conditions(of, kind).count();
        for kind in [VERDICTS[0], VERDICTS[1], "Failed"] {
            if count(request, kind) < count(old, kind) {
                let why = format!("updates may not remove a condition of type {kind:?}");
                errors.push(FieldError::forbidden("status.conditions", why));
            }
        }
        if context.subresource == "approval" {
            return errors;
        }
        for kind in VERDICTS {
            if count(request, kind) > count(old, kind) {
                let why = format!("updates may not add a condition of type {kind:?}");
                errors.push(FieldError::forbidden("status.conditions", why));
            }
        }
        let [new, before] = [request, old].map(|request| object::text_at(request, "status.certificate"));
        if !before.is_empty() && new != before {
            let why = "updates may not modify existing certificate content";
            errors.push(FieldError::forbidden("status.certificate", why));
        }
        errors
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.signerName"]
    }
}

/// The rules of resource slices.
pub(crate) struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.nodeName", "spec.driver"]
    }
}
