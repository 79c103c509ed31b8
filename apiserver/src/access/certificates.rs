//! Who a client certificate says that its owner is.

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::Identity;

/// The user (the common name) and the groups (the organizations) of a certificate that was verified already; `None` where it
/// names no user.
pub(crate) fn identity_of(certificate: &[u8]) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    // Of several common names, the last one counts, as in Go's `pkix.Name`.
    let user = subject.iter_common_name().last()?.as_str().ok()?;
    if user.is_empty() {
        return None;
    }
    let groups = subject.iter_organization().filter_map(|name| name.as_str().ok()).map(str::to_owned);
    Some(Identity::authenticated(user, groups))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    #[test]
    fn the_last_common_name_is_the_user_as_in_go() {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "admin");
        // rcgen keeps one value of each type: a second name has the type by its number.
        params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 3]), "bob");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(identity_of(certificate.der()).unwrap().user, "bob");
    }
}
