//! Roles and their bindings.

use serde_json::Value;

use super::fields::{each, supported};
use super::strategy::{Context, Strategy};
use crate::field::FieldError;
use crate::names::{self, NameRule};
use crate::object::{self, default_text, members, members_at};

const GROUP: &str = "rbac.authorization.k8s.io";

/// The rules of roles and cluster roles.
pub(crate) struct Role;

impl Strategy for Role {
    fn validate(&self, context: &Context<'_>, role: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (at, rule) in object::list_at(role, "rules").iter().enumerate() {
            let path = format!("rules[{at}]");
            let lacks = |name: &str| object::list_at(rule, name).is_empty();
            if lacks("verbs") {
                let why = "verbs must contain at least one value";
                errors.push(FieldError::required(format!("{path}.verbs"), why));
            }
            if !lacks("nonResourceURLs") {
                let mut wrong = |why: &str| {
                    let paths = rule["nonResourceURLs"].clone();
                    errors.push(FieldError::invalid(format!("{path}.nonResourceURLs"), paths, why));
                };
                if context.resource.namespaced() {
                    wrong("namespaced rules cannot apply to non-resource URLs");
                }
                if ["apiGroups", "resources", "resourceNames"].into_iter().any(|name| !lacks(name)) {
                    wrong("rules cannot apply to both regular resources and non-resource URLs");
                }
                continue;
            }
            for (name, why) in [
                ("apiGroups", "resource rules must supply at least one api group"),
                ("resources", "resource rules must supply at least one resource"),
            ] {
                if lacks(name) {
                    errors.push(FieldError::required(format!("{path}.{name}"), why));
                }
            }
        }
        errors
    }
}

/// The rules of roles' bindings.
pub(crate) struct RoleBinding;

impl Strategy for RoleBinding {
    fn default(&self, binding: &mut Value) {
        default_text(members_at(binding, "roleRef"), "apiGroup", GROUP);
        each(binding, "subjects", |subject| {
            if subject["kind"] == "User" || subject["kind"] == "Group" {
                default_text(members(subject), "apiGroup", GROUP);
            }
        });
    }

    fn validate(&self, context: &Context<'_>, binding: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let role = &binding["roleRef"];
        supported(role, "roleRef", "apiGroup", &[GROUP], &mut errors);
        let kinds: &[&str] =
            if context.resource.namespaced() { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        let kind = object::text_at(role, "kind");
        if !kinds.contains(&kind.as_str()) {
            errors.push(FieldError::not_supported("roleRef.kind", kind, kinds));
        }
        let name = object::text_at(role, "name");
        if name.is_empty() {
            errors.push(FieldError::required("roleRef.name", ""));
        }
        errors.extend(FieldError::each_invalid("roleRef.name", &name, NameRule::PathSegment.check(&name)));
        for (at, subject) in object::list_at(binding, "subjects").iter().enumerate() {
            validate_subject(subject, &format!("subjects[{at}]"), context.resource.namespaced(), &mut errors);
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, binding: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, binding);
        if binding["roleRef"] != old["roleRef"] {
            errors.push(FieldError::invalid("roleRef", binding["roleRef"].clone(), "cannot change roleRef"));
        }
        errors
    }
}

fn validate_subject(subject: &Value, path: &str, namespaced: bool, errors: &mut Vec<FieldError>) {
    let [kind, name, namespace] =
        ["kind", "name", "namespace"].map(|member| object::text_at(subject, member));
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    match kind.as_str() {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.extend(FieldError::each_invalid(
                    &format!("{path}.name"),
                    &name,
                    names::subdomain(&name),
                ));
            }
            supported(subject, path, "apiGroup", &[""], errors);
            if !namespaced && namespace.is_empty() {
                errors.push(FieldError::required(format!("{path}.namespace"), ""));
            }
        }
        "User" | "Group" => supported(subject, path, "apiGroup", &[GROUP], errors),
        _ => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(format!("{path}.kind"), kind, &kinds));
        }
    }
}
