//! Kinds of `certificates.k8s.io` with rules.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::fields::each;
use super::strategy::{Context, Strategy};
use crate::field::FieldError;
use crate::object::{self, members, members_at};
use crate::refusal::Result;

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
