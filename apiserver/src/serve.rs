//! The server behind a socket.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::access::{Identity, identity_of};
use crate::in_memory::read_and_answer;
use crate::rest::{ApiServer, Connection};

/// How long a client may take to say hello.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A listening socket and the connections that came from it.
///
/// Dropping it, or [`close`](Self::close), ends all of them: no task stays behind.
pub(crate) struct Listening {
    address: SocketAddr,
    /// The one that accepts. It owns those of the connections.
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Listening {
    /// Listens at that address and serves HTTP/1.1 and HTTP/2 there: over TLS, or plain (HTTP/2 then with prior knowledge).
    ///
    /// # Errors
    /// The address can't be had.
    pub(crate) async fn open(
        server: ApiServer,
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        let tls = tls.map(TlsAcceptor::from);
        tasks.spawn(accept(server, listener, tls, stop.clone()));
        Ok(Self { address, tasks, stop })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Breaks off all connections, and waits until all tasks are gone and the port is free.
    pub(crate) async fn close(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Takes connections until it is stopped, or dropped; they go with it.
async fn accept(server: ApiServer, listener: TcpListener, tls: Option<TlsAcceptor>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(connected(server.clone(), stream, peer.ip(), tls.clone()));
                }
                Err(error) => {
                    // Out of descriptors, mostly: others must end first.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// One connection, from its first byte to its last.
async fn connected(server: ApiServer, stream: TcpStream, peer: IpAddr, tls: Option<TlsAcceptor>) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return serve(server, stream, peer, None).await };
    match timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            let certificates = stream.get_ref().1.peer_certificates();
            let who = certificates.and_then(<[_]>::first).and_then(|of_client| identity_of(of_client));
            serve(server, stream, peer, who).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// Answers what comes over a connection; all of it from `who`, if that is known. Where it changes its protocol, carries what
/// follows.
async fn serve(
    server: ApiServer,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: IpAddr,
    who: Option<Identity>,
) {
    let connection = Connection::with(peer);
    // A request that ends with `Reset` takes its connection with it over HTTP/1.1, and its stream over HTTP/2.
    let service = service_fn(|mut request| {
        let server = server.clone();
        if let Some(who) = &who {
            request.extensions_mut().insert(who.clone());
        }
        request.extensions_mut().insert(connection.clone());
        async move { read_and_answer(&server, request).await }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None);
    builder.http2().timer(TokioTimer::new());
    let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended early");
    }
    if let Some(tunnel) = connection.take_tunnel() {
        tunnel.await;
    }
}
