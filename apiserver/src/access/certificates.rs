//! Clients by the certificates of their connections.

use steersman_serving::auth::User;

use super::Identity;

/// The client of a request showed a certificate that is not valid, such as one of another authority. As upstream, the request
/// is not anonymous then: it needs a valid token. An extension of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InvalidCertificate;

/// Who this server is to nodes: the user in the certificate that it shows them. Upstream's name.
pub(crate) const TOWARD_NODES: &str = "kube-apiserver-kubelet-client";

/// The identity of the user whom a valid certificate names. `None` if that is this server itself: it has been led back here, by an
/// address that a node tells of itself, and must not carry out as an administrator what somebody asked of the node.
pub(crate) fn identity_of(user: User) -> Option<Identity> {
    let User { name, uid, groups, extra } = user.authenticated();
    (name != TOWARD_NODES).then(|| Identity { user: name, uid, groups, extra: extra.into_iter().collect() })
}
