//! Who a client certificate says that its owner is.

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::Identity;

/// The user (the common name) and the groups (the organizations) of a certificate that was verified already; `None` where it
/// names no user.
pub(crate) fn identity_of(certificate: &[u8]) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?;
    if user.is_empty() {
        return None;
    }
    let groups = subject.iter_organization().filter_map(|name| name.as_str().ok()).map(str::to_owned);
    Some(Identity::authenticated(user, groups))
}
