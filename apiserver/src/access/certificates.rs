//! Clients by the certificates of their connections.

use steersman_serving::auth::User;

use super::Identity;

/// The client of a request showed a certificate that is not valid, such as one of another authority. As upstream, the request
/// is not anonymous then: it needs a valid token. An extension of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InvalidCertificate;

/// The identity of the user whom a valid certificate names.
pub(crate) fn identity_of(user: User) -> Identity {
    let User { name, uid, groups, extra } = user.authenticated();
    Identity { user: name, uid, groups, extra: extra.into_iter().collect() }
}
