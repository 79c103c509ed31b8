//! The client of a TLS connection, as its certificates name it.

use std::sync::Arc;

use http::Request;
use rustls::ServerConfig;
use steersman_serving::auth::{ClientCa, ClientCertificates};

use crate::access::{InvalidCertificate, identity_of};

/// How a socket speaks TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    /// The authority whose client certificates count.
    pub(crate) client_ca: Arc<ClientCa>,
}

/// The client of one connection.
pub(super) struct Client {
    certificates: ClientCertificates,
    client_ca: Arc<ClientCa>,
}

impl Client {
    /// The client at the other end of a connection whose handshake is done.
    pub(super) fn of(connection: &rustls::ServerConnection, client_ca: Arc<ClientCa>) -> Self {
        let chain = connection.peer_certificates().unwrap_or_default();
        Self { certificates: ClientCertificates::new(chain), client_ca }
    }

    /// Whether the client's certificate names a user.
    pub(super) async fn is_known(&self) -> bool {
        let user = self.client_ca.user(&self.certificates).await;
        user.is_ok_and(|user| user.is_some_and(|user| identity_of(user).is_some()))
    }

    /// Adds the identity in the client's certificate to a request, or [`InvalidCertificate`]. Each request needs this: a
    /// certificate may expire while its connection is open.
    pub(super) async fn identify<B>(&self, request: &mut Request<B>) {
        match self.client_ca.user(&self.certificates).await {
            Ok(Some(user)) => match identity_of(user) {
                Some(identity) => drop(request.extensions_mut().insert(identity)),
                None => {
                    tracing::debug!("The server's own certificate toward nodes is not taken");
                    request.extensions_mut().insert(InvalidCertificate);
                }
            },
            Ok(None) => {}
            Err(reason) => {
                tracing::debug!(reason, "A client certificate is not valid");
                request.extensions_mut().insert(InvalidCertificate);
            }
        }
    }
}
