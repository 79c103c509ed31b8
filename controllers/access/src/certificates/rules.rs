//! What Kubernetes's own signers ask of a request.

use std::collections::BTreeSet;

use super::request::Request;

/// Signs certificates of kubelets for TLS servers.
pub(super) const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// Signs certificates of kubelets for calls to the API server.
pub(super) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signs certificates of other clients of the API server.
pub(super) const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Signs anything, and promises nothing about who trusts it.
pub(super) const LEGACY_UNKNOWN: &str = "kubernetes.io/legacy-unknown";

/// The group of all nodes.
const NODES: &str = "system:nodes";
/// The prefix of the user name of a node.
const NODE: &str = "system:node:";

const DIGITAL_SIGNATURE: &str = "digital signature";
const KEY_ENCIPHERMENT: &str = "key encipherment";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

/// Checks a request as the signer of this name must.
///
/// # Errors
/// Why the signer refuses the request, in upstream's words, or that the signer is not one of Kubernetes's own.
pub(super) fn check(signer: &str, request: &Request, usages: &[String]) -> Result<(), String> {
    match signer {
        KUBELET_SERVING => kubelet_serving(request, usages),
        KUBELET_CLIENT => kubelet_client(request, usages),
        CLIENT => client(usages),
        LEGACY_UNKNOWN => Ok(()),
        other => Err(format!("unrecognized signerName: {other:?}")),
    }
}

/// Checks a request for the certificate of a kubelet for its clients. Upstream: `ValidateKubeletServingCSR`.
///
/// # Errors
/// Why the signer refuses the request.
pub(super) fn kubelet_serving(request: &Request, usages: &[String]) -> Result<(), String> {
    let names = &request.names;
    let fault = if request.subject.organizations() != [NODES] {
        "subject organization is not system:nodes"
    } else if names.dns.is_empty() && names.ips.is_empty() {
        "DNS or IP subjectAltName is required"
    } else if !names.emails.is_empty() {
        "Email subjectAltNames are not allowed"
    } else if !names.uris.is_empty() {
        "URI subjectAltNames are not allowed"
    } else if !are(usages, SERVER_AUTH) {
        return Err(format!("usages did not match [{DIGITAL_SIGNATURE} {KEY_ENCIPHERMENT} {SERVER_AUTH}]"));
    } else if !request.subject.common_name().starts_with(NODE) {
        "subject common name does not begin with system:node:"
    } else {
        return Ok(());
    };
    Err(fault.to_owned())
}

/// Checks a request for the certificate of a kubelet for the API server. Upstream: `ValidateKubeletClientCSR`.
///
/// # Errors
/// Why the signer refuses the request.
pub(super) fn kubelet_client(request: &Request, usages: &[String]) -> Result<(), String> {
    let names = &request.names;
    let fault = if request.subject.organizations() != [NODES] {
        "subject organization is not system:nodes"
    } else if !names.dns.is_empty() {
        "DNS subjectAltNames are not allowed"
    } else if !names.emails.is_empty() {
        "Email subjectAltNames are not allowed"
    } else if !names.ips.is_empty() {
        "IP subjectAltNames are not allowed"
    } else if !names.uris.is_empty() {
        "URI subjectAltNames are not allowed"
    } else if !request.subject.common_name().starts_with(NODE) {
        "subject common name does not begin with system:node:"
    } else if !are(usages, CLIENT_AUTH) {
        return Err(format!("usages did not match [{CLIENT_AUTH} {DIGITAL_SIGNATURE} {KEY_ENCIPHERMENT}]"));
    } else {
        return Ok(());
    };
    Err(fault.to_owned())
}

/// Checks the usages of a certificate for another client of the API server. Upstream: `validAPIServerClientUsages`.
fn client(usages: &[String]) -> Result<(), String> {
    let allowed = [DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, CLIENT_AUTH];
    if let Some(usage) = usages.iter().find(|usage| !allowed.contains(&usage.as_str())) {
        return Err(format!("invalid usage for client certificate: {usage}"));
    }
    if !usages.iter().any(|usage| usage == CLIENT_AUTH) {
        return Err(format!("missing required usage for client certificate: {CLIENT_AUTH}"));
    }
    Ok(())
}

/// Whether a kubelet asks for the usages that it needs for this purpose, and no others. Only RSA keys need the encipherment of
/// keys.
fn are(usages: &[String], purpose: &str) -> bool {
    let set: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    set == BTreeSet::from([DIGITAL_SIGNATURE, purpose])
        || set == BTreeSet::from([DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, purpose])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Csr, csr};
    use super::*;

    fn usages(list: &str) -> Vec<String> {
        list.split(", ").map(str::to_owned).collect()
    }

    fn node() -> Csr {
        csr("system:node:n1").organization("system:nodes")
    }

    #[test]
    fn a_kubelet_gets_a_serving_certificate_for_its_own_names_only() {
        let good = "digital signature, key encipherment, server auth";
        let mismatch = Err("usages did not match [digital signature key encipherment server auth]");
        for (name, request, asked, expected) in [
            ("a DNS name", node().dns("n1"), good, Ok(())),
            ("an address", node().ip("192.0.2.1"), good, Ok(())),
            ("no RSA key", node().dns("n1"), "server auth, digital signature", Ok(())),
            ("a usage twice", node().dns("n1"), "server auth, digital signature, server auth", Ok(())),
            (
                "no organization",
                csr("system:node:n1").dns("n1"),
                good,
                Err("subject organization is not system:nodes"),
            ),
            (
                "another organization",
                csr("system:node:n1").organization("notsystem:nodes").dns("n1"),
                good,
                Err("subject organization is not system:nodes"),
            ),
            (
                "two organizations",
                node().organization("system:masters").dns("n1"),
                good,
                Err("subject organization is not system:nodes"),
            ),
            ("no names", node(), good, Err("DNS or IP subjectAltName is required")),
            (
                "an email address",
                node().dns("n1").email("a@b"),
                good,
                Err("Email subjectAltNames are not allowed"),
            ),
            ("a URI", node().dns("n1").uri("http://n1"), good, Err("URI subjectAltNames are not allowed")),
            ("no usages", node().dns("n1"), "", mismatch),
            ("a missing usage", node().dns("n1"), "server auth", mismatch),
            ("a further usage", node().dns("n1"), "digital signature, server auth, client auth", mismatch),
            (
                "another user",
                csr("notsystem:node:n1").organization("system:nodes").dns("n1"),
                good,
                Err("subject common name does not begin with system:node:"),
            ),
        ] {
            let found = check(KUBELET_SERVING, &request.request(), &usages(asked));
            assert_eq!(found, expected.map_err(str::to_owned), "{name}");
        }
    }

    #[test]
    fn a_kubelet_gets_a_client_certificate_without_further_names() {
        let good = "digital signature, key encipherment, client auth";
        let mismatch = Err("usages did not match [client auth digital signature key encipherment]");
        for (name, request, asked, expected) in [
            ("a kubelet", node(), good, Ok(())),
            ("no RSA key", node(), "client auth, digital signature", Ok(())),
            (
                "another organization",
                csr("system:node:n1").organization("system:masters"),
                good,
                Err("subject organization is not system:nodes"),
            ),
            ("a DNS name", node().dns("n1"), good, Err("DNS subjectAltNames are not allowed")),
            ("an email address", node().email("a@b"), good, Err("Email subjectAltNames are not allowed")),
            ("an address", node().ip("192.0.2.1"), good, Err("IP subjectAltNames are not allowed")),
            ("a URI", node().uri("http://n1"), good, Err("URI subjectAltNames are not allowed")),
            (
                "another user",
                csr("n1").organization("system:nodes"),
                good,
                Err("subject common name does not begin with system:node:"),
            ),
            ("a missing usage", node(), "client auth", mismatch),
            (
                "a further usage",
                node(),
                "digital signature, key encipherment, client auth, server auth",
                mismatch,
            ),
        ] {
            let found = check(KUBELET_CLIENT, &request.request(), &usages(asked));
            assert_eq!(found, expected.map_err(str::to_owned), "{name}");
        }
    }

    #[test]
    fn other_clients_get_certificates_for_clients_only() {
        let request = csr("bob").organization("team").dns("x").request();
        for (asked, expected) in [
            ("client auth", Ok(())),
            ("client auth, digital signature, key encipherment", Ok(())),
            ("digital signature", Err("missing required usage for client certificate: client auth")),
            ("client auth, server auth", Err("invalid usage for client certificate: server auth")),
        ] {
            assert_eq!(check(CLIENT, &request, &usages(asked)), expected.map_err(str::to_owned), "{asked}");
        }
    }

    #[test]
    fn a_signer_without_rules_signs_nothing() {
        let refused = Err("unrecognized signerName: \"example.com/x\"".to_owned());
        assert_eq!(check("example.com/x", &csr("a").request(), &usages("client auth")), refused);
    }

    #[test]
    fn the_legacy_signer_refuses_nothing() {
        let request = csr("root").organization("system:masters").email("a@b").request();
        assert_eq!(check(LEGACY_UNKNOWN, &request, &usages("any, cert sign")), Ok(()));
    }
}
