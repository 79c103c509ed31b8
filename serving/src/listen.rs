//! A server over TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::accept::{Evictable, accept};
use crate::activity::Activity;
use crate::auth::Authenticator;
use crate::connection::{Connection, Streams, serve_connection};
use crate::error::Error;
use crate::files::{Files, FromFiles};
use crate::peer::Service;
use crate::tls::{ServingCertificates, Spoken, server_config};

/// The parts of a server.
pub struct Serving<S> {
    /// Answers the requests.
    pub service: Arc<S>,
    /// Knows which client certificates are verified. The service calls it for each request.
    pub authenticator: Arc<Authenticator>,
    /// The certificates that clients see.
    pub certificates: Arc<ServingCertificates>,
    /// The versions of TLS and HTTP.
    pub spoken: Spoken,
    /// Maximum number of concurrent requests on a connection.
    pub streams: Streams,
    /// Maximum number of open connections, tunnels included. [`accept()`] says which is closed for one more.
    pub max_connections: usize,
}

/// Binds a listener to an address.
///
/// # Errors
/// If the address is in use, or is not an address of this machine.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::Bind { address, source })
}

/// Serves until `stop` is cancelled. Answers under way then have a second to end.
///
/// # Errors
/// If TLS can't be set up as configured. Nothing was served then.
pub async fn serve<S: Service>(
    listener: TcpListener,
    serving: Serving<S>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let Serving { service, authenticator, certificates, spoken, streams, max_connections } = serving;
    let acceptor = TlsAcceptor::from(Arc::new(server_config(Arc::clone(&certificates), &spoken)?));
    let of_clients = authenticator.client_authorities().map(|authority| authority as Arc<dyn FromFiles>);
    let of_server = certificates.all().map(|certificate| certificate as Arc<dyn FromFiles>);
    let files = Files::new(of_server.chain(of_clients));
    let accepting = accept(listener, max_connections, &stop, |stream, address, idle| {
        let activity = Activity::new(Arc::clone(idle));
        let connection = Connection {
            service: Arc::clone(&service),
            authenticator: Arc::clone(&authenticator),
            acceptor: acceptor.clone(),
            streams,
            address,
            activity: Arc::clone(&activity),
        };
        (activity as Arc<dyn Evictable>, serve_connection(connection, stream, stop.clone()))
    });
    let mut connections = tokio::select! {
        connections = accepting => connections,
        never = files.watch() => match never {},
    };
    connections.wait().await;
    Ok(())
}
