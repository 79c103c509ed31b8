//! One connection, from its handshake to its end.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::activity::Activity;
use super::auth::ClientCertificates;
use super::service::{Peer, Server};
use super::socket;

/// How long answers may take that are under way when the connection is to end.
const GRACE: Duration = Duration::from_secs(1);
/// How long the head of a later request may take.
const HEAD: Duration = Duration::from_secs(90);
/// How many bytes of bodies a client may send ahead over HTTP/2, on a connection and on a stream. Nothing reads bodies, and
/// HTTP/2 knows no smaller window for a connection.
const WINDOW: u32 = 65_535;
/// After which time without a sign of the other end it is asked for one, and how long it may take to give it.
const PING: Duration = Duration::from_secs(30);

/// How much a connection may have the server hold at a time.
struct Limits {
    /// Maximum size of the head of a request, in bytes.
    head: u32,
    /// Maximum number of requests at a time over HTTP/2.
    streams: u32,
}

/// Limits of a connection with a verified client certificate, such as the API server's, which puts a command for a
/// container into the query. An address has 64 KiB at most. Upstream takes heads of 1 MiB.
const VERIFIED: Limits = Limits { head: 256 * 1024, streams: 250 };
/// Limits of all other connections, which anybody may open. The longest part of what collectors of metrics send is a token,
/// and they ask for a handful of paths.
const UNVERIFIED: Limits = Limits { head: 16 * 1024, streams: 8 };

/// Serves a connection until it ends or `stop`.
pub(super) async fn serve_connection(
    server: Arc<Server>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    address: SocketAddr,
    activity: Arc<Activity>,
    stop: CancellationToken,
) {
    if let Err(error) = socket::prepare(&stream) {
        tracing::debug!(peer = %address, %error, "Connection is gone");
        return;
    }
    let stream = tokio::select! {
        shaken = acceptor.accept(stream) => match shaken {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(peer = %address, %error, "TLS handshake error");
                return;
            }
        },
        () = activity.over() => {
            tracing::debug!(peer = %address, "TLS handshake timed out");
            return;
        }
        () = stop.cancelled() => return,
    };
    let tls = stream.get_ref().1;
    let is_http2 = tls.alpn_protocol() == Some(b"h2");
    let certificates = ClientCertificates::new(tls.peer_certificates().unwrap_or_default());
    let limits = tokio::select! {
        is_verified = server.auth.is_verified(&certificates) => match is_verified {
            true => VERIFIED,
            false => UNVERIFIED,
        },
        () = activity.over() => {
            tracing::debug!(peer = %address, "Verification of the client certificate timed out");
            return;
        }
        () = stop.cancelled() => return,
    };
    let peer = Arc::new(Peer { address: address.ip(), certificates, activity, tunnel: Mutex::default() });
    let service = {
        let peer = peer.clone();
        service_fn(move |request| {
            let (server, peer) = (server.clone(), peer.clone());
            async move { Ok::<_, Infallible>(server.answer(&peer, request).await) }
        })
    };
    let io = TokioIo::new(stream);
    if is_http2 {
        let streams = Streams::default();
        let connection = http2::Builder::new(streams.clone())
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(limits.head)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .serve_connection(io, service);
        drive(connection, |connection| connection.graceful_shutdown(), &peer, &stop).await;
        streams.0.lock().abort_all();
        return;
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(usize::try_from(limits.head).unwrap_or(usize::MAX))
        .serve_connection(io, service)
        .with_upgrades();
    drive(connection, |connection| connection.graceful_shutdown(), &peer, &stop).await;
    let tunnel = peer.tunnel.lock().take();
    if let Some(tunnel) = tunnel {
        stop.run_until_cancelled(tunnel).await;
    }
}

/// Waits for the end of a connection; asks it to end, by `finish`, when its time is over.
async fn drive<C>(connection: C, finish: impl FnOnce(Pin<&mut C>), peer: &Peer, stop: &CancellationToken)
where
    C: Future<Output = hyper::Result<()>>,
{
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(peer = %peer.address, %error, "Connection broke off");
            }
            return;
        }
        () = peer.activity.over() => {}
        () = stop.cancelled() => {}
    }
    if peer.activity.was_turned_away() {
        tracing::debug!(peer = %peer.address, "Connection is closed to make room");
        return;
    }
    finish(connection.as_mut());
    if timeout(GRACE, connection).await.is_err() {
        tracing::debug!(peer = %peer.address, "Connection is closed though it is in use");
    }
}

/// The requests of a connection over HTTP/2; they end with it.
#[derive(Clone, Default)]
struct Streams(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let mut streams = self.0.lock();
        while streams.try_join_next().is_some() {}
        streams.spawn(stream);
    }
}
