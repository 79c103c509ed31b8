//! The server behind a socket.
//!
//! ```text
//! accept (a limited number) ─> TLS handshake (with a deadline) ─> HTTP, until
//!     the client ends the connection · it exceeds a limit (activity) · a new connection needs its place ·
//!     the server stops (after the answers under way)
//! each request: its user by the client certificate, verified anew once it may have expired (client) ─> answer
//! ```

mod accepted;
mod activity;
mod answering;
mod client;
mod limits;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use steersman_serving::Evictable;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub(crate) use self::client::Tls;
pub use self::limits::Limits;

use self::accepted::Accepted;
use self::activity::Overdue;
use self::answering::Answering;
use self::client::Client;
use crate::in_memory::read_and_answer;
use crate::rest::{ApiServer, Endless, Reset};

/// Maximum number of concurrent requests on a connection over HTTP/2. Upstream's number.
const STREAMS: u32 = 100;
/// Maximum size of a request's head over HTTP/1, in bytes. The server buffers it before it authenticates the client. The query
/// of `kubectl exec` has the whole command, so 16 KiB, hyper's limit over HTTP/2, would be too little; hyper's own is 408 KiB.
const HEAD: usize = 64 * 1024;
/// How long a connection stays open after its client was told that it ends because it was idle for too long.
const LEAVING: Duration = Duration::from_secs(5);

/// How a socket is served.
#[derive(Clone, Default)]
pub(crate) struct Manner {
    /// `None` for plain HTTP, in which clients need prior knowledge of HTTP/2.
    pub(crate) tls: Option<Tls>,
    /// `None` for no limits.
    pub(crate) limits: Option<Limits>,
}

/// A listening socket and the connections that came from it.
///
/// Dropping it, or [`close`](Self::close), ends all of them: no task stays behind.
pub(crate) struct Listening {
    address: SocketAddr,
    /// The task that accepts connections. It owns the tasks of the connections.
    tasks: JoinSet<()>,
    ends: Ends,
}

/// Ends a socket.
#[derive(Clone)]
struct Ends {
    /// Accept no more connections, and end each connection once its requests under way are answered.
    drain: CancellationToken,
    /// Break off all connections. Cancels `drain`, too.
    close: CancellationToken,
}

impl Default for Ends {
    fn default() -> Self {
        let close = CancellationToken::new();
        Self { drain: close.child_token(), close }
    }
}

impl Listening {
    /// Listens at that address and serves HTTP/1.1 and HTTP/2 there.
    ///
    /// # Errors
    /// The address is in use, or is not an address of this machine.
    pub(crate) async fn open(server: ApiServer, address: SocketAddr, manner: Manner) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (mut tasks, ends) = (JoinSet::new(), Ends::default());
        let limits = manner.limits.map(|limits| limits.within(limits::descriptors()));
        let serving = Serving { server, tls: manner.tls, limits, drain: ends.drain.clone() };
        tasks.spawn(accept(serving, listener, ends.clone()));
        Ok(Self { address, tasks, ends })
    }

    /// The address of the socket.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more connections and requests, and waits until the requests under way are answered, or `grace` is over.
    pub(crate) async fn drain(&mut self, grace: Duration) {
        self.ends.drain.cancel();
        let _ = timeout(grace, async { while self.tasks.join_next().await.is_some() {} }).await;
    }

    /// Breaks off all connections, and waits until all tasks are gone and the port is free.
    pub(crate) async fn close(mut self) {
        self.ends.close.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Accepts connections until `ends` says so, or it is dropped. The connections end with it.
async fn accept(serving: Serving, listener: TcpListener, ends: Ends) {
    let most = serving.limits.map_or(usize::MAX, |limits| limits.connections);
    let start = |stream, peer: SocketAddr, idle: &Arc<Notify>| {
        let accepted = Accepted::at(peer.ip(), Arc::clone(idle));
        let served = serving.clone().connected(stream, accepted.clone());
        (Arc::new(accepted) as Arc<dyn Evictable>, served)
    };
    let mut connections = steersman_serving::accept(listener, most, &ends.drain, start).await;
    tokio::select! {
        () = ends.close.cancelled() => {}
        () = connections.wait() => {}
    }
    connections.close().await;
}

/// A connection's bytes.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// The parts of a server that serve a connection.
#[derive(Clone)]
struct Serving {
    server: ApiServer,
    tls: Option<Tls>,
    limits: Option<Limits>,
    drain: CancellationToken,
}

impl Serving {
    /// Serves one connection, from its handshake to its end.
    async fn connected(self, stream: impl Stream, accepted: Accepted) {
        let Some(tls) = self.tls.clone() else { return self.serve(stream, accepted, None).await };
        let handshake = self.limits.map_or(Duration::MAX, |limits| limits.handshake);
        let shaken = async {
            let stream = TlsAcceptor::from(tls.config).accept(stream).await?;
            let client = Client::of(stream.get_ref().1, tls.client_ca);
            if client.is_known().await {
                accepted.connection.authenticated();
            }
            Ok::<_, io::Error>((stream, client))
        };
        match timeout(handshake, self.drain.run_until_cancelled(shaken)).await {
            Ok(Some(Ok((stream, client)))) => self.serve(stream, accepted, Some(client)).await,
            Ok(Some(Err(error))) => tracing::debug!(%error, "A TLS handshake failed"),
            Ok(None) => {}
            Err(_) => tracing::debug!("A TLS handshake took too long"),
        }
    }

    /// Answers the requests of a connection. `client` is `None` without TLS. After an upgrade, waits for the tunnel.
    async fn serve(self, stream: impl Stream, accepted: Accepted, client: Option<Client>) {
        let Self { server, mut limits, drain, .. } = self;
        let Accepted { connection, activity, .. } = accepted;
        let client = client.map(Arc::new);
        // A request that ends with `Reset` takes its connection with it over HTTP/1.1, and its stream over HTTP/2.
        let service = service_fn(|mut request| {
            let (server, under_way) = (server.clone(), activity.request());
            let client = client.clone();
            request.extensions_mut().insert(connection.clone());
            async move {
                if let Some(client) = client {
                    client.identify(&mut request).await;
                }
                let answer = read_and_answer(&server, request).await?;
                let endless = answer.extensions().get::<Endless>().copied();
                Ok::<_, Reset>(answer.map(|body| match endless {
                    Some(Endless::Watch) => Answering::watch(body, under_way),
                    Some(Endless::Stream) => Answering::plain(body, under_way),
                    None => {
                        under_way.answered();
                        Answering::plain(body, under_way)
                    }
                }))
            }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        // `activity` bounds that time: a connection without a whole head counts as idle.
        builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEAD);
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
        if let Some(limits) = limits {
            builder.http2().keep_alive_interval(limits.ping).keep_alive_timeout(limits.pong);
        }
        let mut served = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        let (mut draining, mut leaving) = (false, false);
        let ended = loop {
            let overdue = async {
                match &limits {
                    Some(limits) => activity.overdue(limits).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ended = served.as_mut() => break ended,
                () = drain.cancelled(), if !draining => {
                    draining = true;
                    served.as_mut().graceful_shutdown();
                }
                why = overdue => {
                    if why != Overdue::Idle || leaving {
                        tracing::debug!(%why, "a connection was closed");
                        return;
                    }
                    // A request that the client has already sent is still answered.
                    leaving = true;
                    activity.stir();
                    limits = limits.map(|limits| Limits { idle: LEAVING.min(limits.idle), ..limits });
                    served.as_mut().graceful_shutdown();
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
        if let Some(tunnel) = connection.take_tunnel() {
            // The request that asked for the upgrade goes on.
            let _under_way = activity.request();
            tunnel.await;
        }
    }
}

#[cfg(test)]
mod tests;
