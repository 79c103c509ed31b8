//! Requests for certificates: who asks, who may approve and sign, and what nobody is certified to be.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::{FromDer, X509Name};

use crate::access::{self, Attributes, Identity, MASTERS, Target};
use crate::object::{self, text_at};
use crate::store::Store;

/// Whose certificates the API server believes.
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

/// Notes who asks: the signer believes it, and so nobody says it of itself.
pub(super) fn note_requestor(request: &mut Value, who: &Identity) {
    let spec = object::members_at(request, "spec");
    for member in ["username", "uid", "groups", "extra"] {
        spec.remove(member);
    }
    spec.insert("username".to_owned(), who.user.as_str().into());
    spec.insert("groups".to_owned(), json!(who.groups));
    if !who.uid.is_empty() {
        spec.insert("uid".to_owned(), who.uid.as_str().into());
    }
    if !who.extra.is_empty() {
        spec.insert("extra".to_owned(), json!(who.extra));
    }
}

/// Why nobody may have that certificate.
pub(super) fn forbidden_subject(request: &Value) -> Option<String> {
    if text_at(request, "spec.signerName") != CLIENTS {
        return None;
    }
    let Some(groups) = organizations(&text_at(request, "spec.request")) else {
        return Some("failed to parse CSR: the request is malformed".to_owned());
    };
    groups
        .iter()
        .any(|group| group == MASTERS)
        .then(|| format!("use of {CLIENTS} signer with {MASTERS} group is not allowed"))
}

/// The groups that a certificate would name.
fn organizations(request: &str) -> Option<Vec<String>> {
    subject(request, |subject| {
        // A name that is no text could be anything.
        subject.iter_organization().map(|name| Some(name.as_str().ok()?.to_owned())).collect()
    })
}

/// The user that a certificate would name; empty if it names none. `None` if the request is malformed, or has several common names:
/// programs differ in which of them counts.
pub(super) fn common_name(request: &str) -> Option<String> {
    subject(request, |subject| {
        let mut names = subject.iter_common_name();
        let name = names.next().map_or(Some(""), |name| name.as_str().ok())?;
        names.next().is_none().then(|| name.to_owned())
    })
}

fn subject<T>(request: &str, read: impl FnOnce(&X509Name<'_>) -> Option<T>) -> Option<T> {
    let pem = STANDARD.decode(request).ok()?;
    let (_, block) = parse_x509_pem(&pem).ok()?;
    let (_, request) = X509CertificationRequest::from_der(&block.contents).ok()?;
    read(&request.certification_request_info.subject)
}

/// Why somebody may not make that of a request through a subresource.
pub(super) fn forbidden_change(
    store: &Store,
    who: &Identity,
    subresource: &str,
    new: &Value,
    old: &Value,
) -> Option<String> {
    let same = |path: &str| object::same(object::at(new, path), object::at(old, path));
    let verb = match subresource {
        "approval" => "approve",
        "status" if !same("status.certificate") || !same("status.conditions") => "sign",
        _ => return None,
    };
    let signer = text_at(old, "spec.signerName");
    let domain = signer.split('/').next().unwrap_or_default();
    let may = |name: String| {
        let target = Target::Resource {
            group: "certificates.k8s.io".to_owned(),
            resource: "signers".to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            name,
        };
        access::is_allowed(store, who, &Attributes::new(verb, target))
    };
    let allowed = may(signer.clone()) || may(format!("{domain}/*"));
    (!allowed).then(|| format!("user not permitted to {verb} requests with signerName {signer:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(signer: &str, organizations: &[&str]) -> Value {
        let mut params = rcgen::CertificateParams::default();
        for organization in organizations {
            params.distinguished_name.push(rcgen::DnType::OrganizationName, *organization);
        }
        let made = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap();
        json!({"spec": {"signerName": signer, "request": STANDARD.encode(made.pem().unwrap())}})
    }

    #[test]
    fn nobody_is_certified_to_be_a_master_to_the_api_server() {
        let why =
            "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
        assert_eq!(forbidden_subject(&request(CLIENTS, &["system:masters"])).as_deref(), Some(why));
        assert_eq!(forbidden_subject(&request(CLIENTS, &["system:nodes"])), None);
        assert_eq!(forbidden_subject(&request("example.com/s", &["system:masters"])), None);
        let malformed = json!({"spec": {"signerName": CLIENTS, "request": "eA=="}});
        assert!(forbidden_subject(&malformed).is_some());
    }

    #[test]
    fn who_asks_is_what_the_server_knows_and_nothing_else() {
        let mut request = json!({
            "spec": {"username": "root", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}, "signerName": "a/b"},
        });
        note_requestor(&mut request, &Identity::authenticated("bob", []));
        let spec = json!({"username": "bob", "groups": ["system:authenticated"], "signerName": "a/b"});
        assert_eq!(request["spec"], spec);
    }
}
