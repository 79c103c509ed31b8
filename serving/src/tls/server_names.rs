//! Chooses a serving certificate by the name that the client asks for (SNI).

use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificate::ServingCertificate;

/// A certificate for some names (`--tls-sni-cert-key`).
#[derive(Debug, Clone)]
pub struct NamedCertificate {
    /// The names, in which a label may be `*`. If there are none, the names in the certificate count.
    pub names: Vec<String>,
    /// The certificate.
    pub certificate: Arc<ServingCertificate>,
}

/// The certificates of a server: one for each client that asks for no other, and others by name.
#[derive(Debug)]
pub struct ServingCertificates {
    default: Arc<ServingCertificate>,
    /// Those that come first win.
    named: Vec<NamedCertificate>,
}

impl ServingCertificates {
    /// A server with one certificate.
    pub fn one(certificate: Arc<ServingCertificate>) -> Self {
        Self { default: certificate, named: Vec::new() }
    }

    /// A server with a default certificate and others for some names. Explicit names win over names in certificates, full
    /// names over names with a `*`, and the first certificate over later ones (as upstream).
    pub fn with_named(default: Arc<ServingCertificate>, named: Vec<NamedCertificate>) -> Self {
        Self { default, named }
    }

    /// All certificates, the default one first.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<ServingCertificate>> {
        let named = self.named.iter().map(|named| Arc::clone(&named.certificate));
        [Arc::clone(&self.default)].into_iter().chain(named)
    }

    fn of_name(&self, name: &str) -> Option<&ServingCertificate> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        candidates(&name).iter().find_map(|candidate| {
            let explicit = |named: &&NamedCertificate| has(&named.names, candidate);
            let extracted = |named: &&NamedCertificate| {
                named.names.is_empty() && has(&named.certificate.names(), candidate)
            };
            let mut named = self.named.iter();
            let found = named.clone().find(explicit).or_else(|| named.find(extracted));
            found.map(|named| &*named.certificate)
        })
    }
}

impl ResolvesServerCert for ServingCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named =
            hello.server_name().filter(|_| !self.named.is_empty()).and_then(|name| self.of_name(name));
        Some(named.unwrap_or(&self.default).current())
    }
}

fn has(names: &[String], candidate: &str) -> bool {
    names.iter().any(|name| name == candidate)
}

/// What a name may be listed as: itself, and with its first label replaced by `*`, as Go's `tls.Config` looks names up.
fn candidates(name: &str) -> Vec<String> {
    let wild = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
    [Some(name.to_owned()), wild].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::SelfSigned;

    fn certificate(names: &[&str]) -> Arc<ServingCertificate> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Arc::new(SelfSigned { common_name: "cn.example".to_owned(), names }.in_memory().unwrap())
    }

    #[test]
    fn the_name_that_a_client_asks_for_chooses_the_certificate() {
        let named = |explicit: &[&str], of_certificate: &[&str]| NamedCertificate {
            names: explicit.iter().map(|name| (*name).to_owned()).collect(),
            certificate: certificate(of_certificate),
        };
        let certificates = ServingCertificates::with_named(
            certificate(&["localhost"]),
            vec![
                named(&[], &["a.example", "*.wild.example", "b.example"]),
                named(&["b.example", "*.example"], &["never.example"]),
                named(&["b.example", "d.wild.example"], &[]),
            ],
        );
        for (name, chosen) in [
            ("a.example", Some(0)),
            ("A.Example.", Some(0)),
            ("c.wild.example", Some(0)),
            ("b.example", Some(1)),
            ("never.example", Some(1)),
            ("d.wild.example", Some(2)),
            ("e.f.wild.example", None),
            ("localhost", None),
        ] {
            let found = certificates.of_name(name).map(std::ptr::from_ref);
            let expected = chosen.map(|at: usize| Arc::as_ptr(&certificates.named[at].certificate));
            assert_eq!(found, expected, "{name}");
        }
    }
}
