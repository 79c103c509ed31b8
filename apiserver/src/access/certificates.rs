//! Clients by the certificates of their connections.

use steersman_serving::auth::User;

use super::Identity;

/// The client of a request showed a certificate that is not valid, such as one of another authority. As upstream, the request
/// is not anonymous then: it needs a valid token. An extension of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InvalidCertificate;

/// The user in the client certificate that this server presents to nodes. Upstream's name.
pub(crate) const TOWARD_NODES: &str = "kube-apiserver-kubelet-client";

/// The identity of the user in a valid certificate. `None` for [`TOWARD_NODES`]: a node can report this server's address as its own, so
/// that this server connects to itself. It must not carry out as an administrator the request that a user sent to the node.
pub(crate) fn identity_of(user: User) -> Option<Identity> {
    let User { name, uid, groups, extra } = user.authenticated();
    (name != TOWARD_NODES).then(|| Identity { user: name, uid, groups, extra: extra.into_iter().collect() })
}
