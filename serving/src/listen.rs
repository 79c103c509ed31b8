//! Accepts connections.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::auth::Authenticator;
use crate::connection::{Connection, Streams, serve_connection};
use crate::error::Error;
use crate::files::{Files, FromFiles};
use crate::peer::Service;
use crate::places::Places;
use crate::tls::{ServingCertificates, Spoken, server_config};

/// How long to wait after a connection could not be accepted, such as for want of file descriptors.
const RETRY: Duration = Duration::from_millis(100);

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
    /// Maximum number of open connections, tunnels included. Beyond it, a new connection closes another one from the address
    /// that has the most of them: the oldest stranger's or, if there are no strangers, the one that has been idle longest. If
    /// all others have requests under way, the new connection waits.
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
    let (places, mut connections) = (Places::new(max_connections), JoinSet::new());
    let accept = async {
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "Failed to accept a connection");
                    sleep(RETRY).await;
                    continue;
                }
            };
            while let Some(ended) = connections.try_join_next() {
                report(ended);
            }
            let place = places.take(address.ip()).await;
            let connection = Connection {
                service: Arc::clone(&service),
                authenticator: Arc::clone(&authenticator),
                acceptor: acceptor.clone(),
                streams,
                address,
                activity: Arc::clone(&place.activity),
            };
            let serving = serve_connection(connection, stream, stop.clone());
            connections.spawn(async move {
                serving.await;
                drop(place);
            });
        }
    };
    let both = async { tokio::join!(accept, files.watch()).0 };
    let _: Option<Infallible> = stop.run_until_cancelled(both).await;
    drop(listener);
    while let Some(ended) = connections.join_next().await {
        report(ended);
    }
    Ok(())
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "The task of a connection failed");
    }
}
