//! Kinds of other groups with a rule or two.

use serde_json::{Value, json};

use super::pod_spec::{each, supported};
use super::priority;
use super::strategy::{Context, Strategy};
use crate::field::FieldError;
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
        if object::text_at(slice, "addressType").is_empty() {
            errors.push(FieldError::required("addressType", ""));
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

/// The rules of roles' bindings.
pub(crate) struct RoleBinding;

impl Strategy for RoleBinding {
    fn default(&self, binding: &mut Value) {
        const GROUP: &str = "rbac.authorization.k8s.io";
        default_text(members_at(binding, "roleRef"), "apiGroup", GROUP);
        each(binding, "subjects", |subject| {
            if subject["kind"] == "User" || subject["kind"] == "Group" {
                default_text(members(subject), "apiGroup", GROUP);
            }
        });
    }

    fn validate_update(&self, _: &Context<'_>, binding: &Value, old: &Value) -> Vec<FieldError> {
        if binding["roleRef"] == old["roleRef"] {
            return Vec::new();
        }
        vec![FieldError::invalid("roleRef", binding["roleRef"].clone(), "cannot change roleRef")]
    }
}

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
        errors
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

/// The rules of signing requests.
pub(crate) struct CertificateSigningRequest;

impl Strategy for CertificateSigningRequest {
    fn prepare_through(&self, context: &Context<'_>, request: &mut Value, old: &Value) {
        let mut kept = old.clone();
        object::carry_over(&mut kept, request, "metadata");
        let status = &request["status"];
        if context.subresource == "approval" {
            let conditions = status["conditions"].clone();
            members_at(&mut kept, "status").insert("conditions".to_owned(), conditions);
        } else {
            object::carry_over(&mut kept, request, "status");
        }
        *request = kept;
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.signerName"]
    }
}

/// Kinds that can be selected by the node they are on.
pub(crate) struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.nodeName", "spec.driver"]
    }
}
