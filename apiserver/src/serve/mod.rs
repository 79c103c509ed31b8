//! The server behind a socket.
//!
//! ```text
//! accept (so many at most: guests) ─> TLS handshake (with a deadline) ─> HTTP, until one of
//!     the client ends it · it has outstayed its welcome (activity) · a newcomer needs its place (guests) ·
//!     the server stops (after what is under way)
//! ```

mod activity;
mod answering;
mod guests;
mod limits;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use self::limits::Limits;

use self::activity::Overdue;
use self::answering::Answering;
use self::guests::{Guest, Guests};
use crate::access::{Identity, identity_of};
use crate::in_memory::read_and_answer;
use crate::rest::{ApiServer, Endless, Reset};

/// How many requests may be under way on one connection of HTTP/2. Upstream's number.
const STREAMS: u32 = 100;
/// Between two lines of the log about connections that can't be had.
const BETWEEN_LINES: Duration = Duration::from_secs(60);
/// How long a peer may be silent until it is asked whether it is there, and between two such questions. Upstream's figures.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// How long a client whose connection was idle for too long has to take note that it ends.
const LEAVING: Duration = Duration::from_secs(5);
/// After a connection that could not be accepted: others must end first, mostly.
const AFTER_FAILURE: Duration = Duration::from_millis(10);

/// How a socket is served.
#[derive(Clone, Default)]
pub(crate) struct Manner {
    /// Plain (HTTP/2 then with prior knowledge) where there is none.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Clients may do as they like where there are none.
    pub(crate) limits: Option<Limits>,
}

/// A listening socket and the connections that came from it.
///
/// Dropping it, or [`close`](Self::close), ends all of them: no task stays behind.
pub(crate) struct Listening {
    address: SocketAddr,
    /// The one that accepts. It owns those of the connections.
    tasks: JoinSet<()>,
    ends: Ends,
}

/// How a socket is told to end.
#[derive(Clone, Default)]
struct Ends {
    /// Nothing new is taken, and connections end when what is under way is answered.
    drain: CancellationToken,
    /// Connections break off.
    close: CancellationToken,
}

impl Listening {
    /// Listens at that address and serves HTTP/1.1 and HTTP/2 there.
    ///
    /// # Errors
    /// The address can't be had.
    pub(crate) async fn open(server: ApiServer, address: SocketAddr, manner: Manner) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (mut tasks, ends) = (JoinSet::new(), Ends::default());
        let limits = manner.limits.map(|limits| limits.within(limits::descriptors()));
        let client =
            Serving { server, tls: manner.tls.map(TlsAcceptor::from), limits, drain: ends.drain.clone() };
        tasks.spawn(accept(client, listener, ends.clone()));
        Ok(Self { address, tasks, ends })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections and requests, and waits until those under way are answered, or `grace` is over.
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

/// Takes connections until it is told to end, or dropped; they go with it.
async fn accept(serving: Serving, listener: TcpListener, ends: Ends) {
    let mut guests = Guests::default();
    let most = serving.limits.map_or(usize::MAX, |limits| limits.connections);
    let (mut refusing, mut failing) = (Complaint::default(), Complaint::default());
    loop {
        tokio::select! {
            () = ends.close.cancelled() => break,
            () = ends.drain.cancelled() => break,
            () = guests.one_left() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    if guests.len() >= most {
                        if refusing.is_due() {
                            tracing::warn!(limit = most, %peer, "Too many connections are open");
                        }
                        if !guests.turn_one_away().await {
                            continue;
                        }
                    }
                    let _ = stream.set_nodelay(true);
                    // It is served even if the system can't find out that its peer is gone.
                    let _ = keep_alive(&stream);
                    let guest = Guest::at(peer.ip());
                    guests.take_in(guest.clone(), serving.clone().connected(stream, guest));
                }
                Err(error) => {
                    if failing.is_due() {
                        tracing::warn!(%error, "Connections can't be accepted");
                    }
                    sleep(AFTER_FAILURE).await;
                }
            },
        }
    }
    drop(listener);
    tokio::select! {
        () = ends.close.cancelled() => {}
        () = guests.all_left() => {}
    }
    guests.shut_out().await;
}

/// Has the system find out that a peer is gone without a word.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let often = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    SockRef::from(stream).set_tcp_keepalive(&often)
}

/// Something that is told once in a while, however often it happens.
#[derive(Default)]
struct Complaint(Option<Instant>);

impl Complaint {
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = self.0.is_none_or(|told| now >= told + BETWEEN_LINES);
        if due {
            self.0 = Some(now);
        }
        due
    }
}

/// What bytes come and go over.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// What a connection needs.
#[derive(Clone)]
struct Serving {
    server: ApiServer,
    tls: Option<TlsAcceptor>,
    limits: Option<Limits>,
    drain: CancellationToken,
}

impl Serving {
    /// One connection, from its first byte to its last.
    async fn connected(self, stream: impl Stream, guest: Guest) {
        let Some(tls) = self.tls.clone() else { return self.serve(stream, guest, None).await };
        let handshake = self.limits.map_or(Duration::MAX, |limits| limits.handshake);
        match timeout(handshake, self.drain.run_until_cancelled(tls.accept(stream))).await {
            Ok(Some(Ok(stream))) => {
                let certificates = stream.get_ref().1.peer_certificates();
                let who = certificates.and_then(<[_]>::first).and_then(|of_client| identity_of(of_client));
                self.serve(stream, guest, who).await;
            }
            Ok(Some(Err(error))) => tracing::debug!(%error, "a TLS handshake failed"),
            Ok(None) => {}
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    /// Answers what comes over a connection; all of it from `who`, if that is known. Where it changes its protocol, carries
    /// what follows.
    async fn serve(self, stream: impl Stream, guest: Guest, who: Option<Identity>) {
        let Self { server, mut limits, drain, .. } = self;
        let Guest { connection, activity } = guest;
        if who.is_some() {
            connection.authenticated();
        }
        // A request that ends with `Reset` takes its connection with it over HTTP/1.1, and its stream over HTTP/2.
        let service = service_fn(|mut request| {
            let (server, under_way) = (server.clone(), activity.request());
            if let Some(who) = &who {
                request.extensions_mut().insert(who.clone());
            }
            request.extensions_mut().insert(connection.clone());
            async move {
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
        // Who is slow with its headers is as one who sends nothing.
        builder.http1().timer(TokioTimer::new()).header_read_timeout(None);
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
                    // A request that is on its way is answered yet.
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
            tunnel.await;
        }
    }
}

#[cfg(test)]
mod tests;
