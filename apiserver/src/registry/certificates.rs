//! Kinds of `certificates.k8s.io` with rules.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;
use steersman_api::Time;

use super::fields::each;
use super::strategy::{Context, Strategy};
use crate::field::FieldError;
use crate::object::{self, members, members_at};
use crate::refusal::Result;

/// The types of conditions by which a request is approved or denied.
const VERDICTS: [&str; 2] = ["Approved", "Denied"];
/// The signer of the API's first version, which later versions refuse.
const LEGACY_UNKNOWN: &str = "kubernetes.io/legacy-unknown";
/// Minimum duration of a certificate, in seconds.
const MIN_EXPIRATION: i64 = 600;
/// The known usages of certificates, in the order of upstream's error messages.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

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

/// Notes when conditions were written, and when they last changed, where the client does not say it.
fn stamp_conditions(request: &mut Value, old: &Value, now: Timestamp) {
    let now = Value::from(Time::from(now).to_string());
    each(&mut request["status"], "conditions", |condition| {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now.clone();
        }
        if condition["lastTransitionTime"].is_null() {
            let same = |old: &&Value| {
                old["type"] == condition["type"]
                    && old["status"] == condition["status"]
                    && !old["lastTransitionTime"].is_null()
            };
            let before = object::list_at(old, "status.conditions").iter().find(same);
            condition["lastTransitionTime"] =
                before.map_or(now.clone(), |old| old["lastTransitionTime"].clone());
        }
    });
}

/// Checks the conditions of a request.
fn validate_conditions(request: &Value, errors: &mut Vec<FieldError>) {
    let path = "status.conditions";
    for (at, condition) in object::list_at(request, path).iter().enumerate() {
        let kind = object::text_at(condition, "type");
        if kind.is_empty() {
            errors.push(FieldError::required(format!("{path}[{at}].type"), ""));
        }
        let only_true = kind == "Failed" || VERDICTS.contains(&kind.as_str());
        let allowed: &[&str] = if only_true { &["True"] } else { &["False", "True", "Unknown"] };
        let status = object::text_at(condition, "status");
        if status.is_empty() {
            errors.push(FieldError::required(format!("{path}[{at}].status"), ""));
        } else if !allowed.contains(&status.as_str()) {
            errors.push(FieldError::not_supported(format!("{path}[{at}].status"), status, allowed));
        }
        if object::list_at(request, path)[..at].iter().any(|other| other["type"] == condition["type"]) {
            errors.push(FieldError::duplicate(format!("{path}[{at}].type"), kind));
        }
    }
    if VERDICTS.iter().all(|verdict| conditions(request, verdict).next().is_some()) {
        let last =
            object::list_at(request, path).iter().rev().map(|condition| object::text_at(condition, "type"));
        let last = last.into_iter().find(|kind| VERDICTS.contains(&kind.as_str())).unwrap_or_default();
        errors.push(FieldError::invalid(path, last, "Approved and Denied conditions are mutually exclusive"));
    }
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
        let usages = object::list_at(request, "spec.usages");
        if usages.is_empty() {
            errors.push(FieldError::required("spec.usages", ""));
        }
        for (at, usage) in usages.iter().enumerate() {
            let path = format!("spec.usages[{at}]");
            if !usage.as_str().is_some_and(|usage| USAGES.contains(&usage)) {
                errors.push(FieldError::not_supported(path, usage.as_str().unwrap_or_default(), &USAGES));
            } else if usages[..at].contains(usage) {
                errors.push(FieldError::duplicate(path, usage.clone()));
            }
        }
        let signer = object::text_at(request, "spec.signerName");
        if signer.is_empty() {
            errors.push(FieldError::required("spec.signerName", ""));
        } else if signer == LEGACY_UNKNOWN {
            let why = "the legacy signerName is not allowed via this API version";
            errors.push(FieldError::invalid("spec.signerName", signer, why));
        } else if !signer.contains('/') {
            let why = "must be a fully qualified domain and path of the form \"example.com/signer-name\"";
            errors.push(FieldError::invalid("spec.signerName", signer, why));
        }
        if let Some(seconds) =
            object::int_at(request, "spec.expirationSeconds").filter(|at| *at < MIN_EXPIRATION)
        {
            let why = "may not specify a duration less than 600 seconds (10 minutes)";
            errors.push(FieldError::invalid("spec.expirationSeconds", seconds, why));
        }
        errors
    }

    fn prepare_for_create(&self, _: &Context<'_>, request: &mut Value) -> Result<()> {
        // A new request is not approved yet.
        members(request).remove("status");
        Ok(())
    }

    /// The spec never changes: the signer signs what was approved.
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
        stamp_conditions(&mut kept, old, context.now);
        *request = kept;
    }

    fn validate_through(&self, context: &Context<'_>, request: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        validate_conditions(request, &mut errors);
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
