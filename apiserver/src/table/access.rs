//! Who may do what, and who is who.

use jiff::SignedDuration;
use serde_json::Value;

use super::BuiltIn;
use super::column::{AGE, NAME, text, wide};
use super::format;
use crate::object::{self, list_at, str_at};

/// The layouts of the groups `rbac.authorization.k8s.io` and `certificates.k8s.io`. Roles have none.
pub(super) fn layout(kind: &str) -> Option<&'static BuiltIn> {
    Some(match kind {
        "RoleBinding" | "ClusterRoleBinding" => &BINDING,
        "CertificateSigningRequest" => &SIGNING_REQUEST,
        _ => return None,
    })
}

static BINDING: BuiltIn = BuiltIn {
    columns: &[NAME, text("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")],
    cells: |binding, now| {
        let role = |name: &str| object::text_at(&binding["roleRef"], name);
        let subjects = |kind: &str| {
            let of_kind = list_at(binding, "subjects").iter().filter(|subject| subject["kind"] == kind);
            let name = |subject: &Value| match str_at(subject, "namespace") {
                Some(namespace) if kind == "ServiceAccount" => {
                    format!("{namespace}/{}", object::text_at(subject, "name"))
                }
                _ => object::text_at(subject, "name"),
            };
            Value::from(of_kind.map(name).collect::<Vec<_>>().join(", "))
        };
        vec![
            format::name(binding),
            format!("{}/{}", role("kind"), role("name")).into(),
            format::age(binding, now),
            subjects("User"),
            subjects("Group"),
            subjects("ServiceAccount"),
        ]
    },
};

static SIGNING_REQUEST: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        AGE,
        text("SignerName"),
        text("Requestor"),
        text("RequestedDuration"),
        text("Condition"),
    ],
    cells: |request, now| {
        let duration = object::int_at(request, "spec.expirationSeconds");
        let duration = duration.map(|seconds| format::human(SignedDuration::from_secs(seconds)));
        vec![
            format::name(request),
            format::age(request, now),
            format::text_or(request, "spec.signerName", "<none>"),
            format::text(request, "spec.username"),
            duration.unwrap_or_else(|| "<none>".to_owned()).into(),
            signing_status(request).into(),
        ]
    },
};

/// A denial outweighs an approval.
fn signing_status(request: &Value) -> String {
    let conditions = list_at(request, "status.conditions");
    let has = |kind: &str| conditions.iter().any(|condition| condition["type"] == kind);
    let mut status = match () {
        () if has("Denied") => "Denied",
        () if has("Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if has("Failed") {
        status.push_str(",Failed");
    }
    if str_at(request, "status.certificate").is_some_and(|certificate| !certificate.is_empty()) {
        status.push_str(",Issued");
    }
    status
}
