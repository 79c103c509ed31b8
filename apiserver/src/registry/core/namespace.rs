//! Namespaces.

use serde_json::{Value, json};

use crate::field::FieldError;
use crate::names;
use crate::object::{self, default_text, members_at};
use crate::refusal::Result;
use crate::registry::strategy::{Context, Strategy};

/// The finalizer that holds a namespace until its content is gone.
const KUBERNETES: &str = "kubernetes";
/// What the labels begin with that say how secure the namespace's pods must be.
const POD_SECURITY: &str = "pod-security.kubernetes.io/";

/// The rules of namespaces.
pub(crate) struct Namespace;

impl Strategy for Namespace {
    fn default(&self, namespace: &mut Value) {
        let name = object::text_at(namespace, "metadata.name");
        if !name.is_empty() {
            members_at(namespace, "metadata.labels")
                .insert("kubernetes.io/metadata.name".to_owned(), name.into());
        }
        default_text(members_at(namespace, "status"), "phase", "Active");
    }

    /// Nobody relies on labels that have no effect.
    fn warning(&self, namespace: &Value) -> Option<&'static str> {
        let labels = object::at(namespace, "metadata.labels").and_then(Value::as_object);
        let asked = labels.is_some_and(|labels| labels.keys().any(|name| name.starts_with(POD_SECURITY)));
        asked.then_some(
            "this server does not enforce pod security: labels pod-security.kubernetes.io/* have no effect",
        )
    }

    fn prepare_for_create(&self, _: &Context<'_>, namespace: &mut Value) -> Result<()> {
        let name = object::text_at(namespace, "metadata.name");
        members_at(namespace, "metadata.labels")
            .insert("kubernetes.io/metadata.name".to_owned(), name.into());
        object::members(namespace).insert("status".to_owned(), json!({"phase": "Active"}));
        let finalizers = members_at(namespace, "spec").entry("finalizers").or_insert_with(|| json!([]));
        if let Value::Array(finalizers) = finalizers
            && !finalizers.iter().any(|finalizer| finalizer == KUBERNETES)
        {
            finalizers.push(KUBERNETES.into());
        }
        Ok(())
    }

    fn validate(&self, _: &Context<'_>, namespace: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for finalizer in object::list_at(namespace, "spec.finalizers").iter().filter_map(Value::as_str) {
            errors.extend(FieldError::each_invalid(
                "spec.finalizers",
                finalizer,
                names::qualified_name(finalizer),
            ));
            if !finalizer.contains('/')
                && !matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion")
            {
                let why = "name is neither a standard finalizer name nor is it fully qualified";
                errors.push(FieldError::invalid("spec.finalizers", finalizer, why));
            }
        }
        errors
    }

    fn prepare_for_update(&self, _: &Context<'_>, namespace: &mut Value, old: &Value) -> Result<()> {
        object::carry_over(namespace, old, "spec");
        Ok(())
    }

    fn prepare_through(&self, context: &Context<'_>, namespace: &mut Value, old: &Value) {
        let mut kept = old.clone();
        object::carry_over(&mut kept, namespace, "metadata");
        let name = if context.subresource == "finalize" { "spec" } else { "status" };
        object::carry_over(&mut kept, namespace, name);
        *namespace = kept;
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.phase"]
    }

    fn holds(&self, namespace: &Value) -> bool {
        !object::list_at(namespace, "spec.finalizers").is_empty()
    }

    fn marked(&self, namespace: &mut Value) {
        members_at(namespace, "status").insert("phase".to_owned(), "Terminating".into());
        // No grace is told of.
        object::metadata(namespace).remove("deletionGracePeriodSeconds");
    }
}
