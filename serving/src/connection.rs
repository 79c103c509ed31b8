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

use crate::activity::Activity;
use crate::auth::{Authenticator, ClientCertificates};
use crate::peer::{Peer, Service};

/// How long answers under way may take when the connection must end.
const GRACE: Duration = Duration::from_secs(1);
/// How long the head of a later request may take.
const HEAD: Duration = Duration::from_secs(90);
/// How many bytes of bodies a client may send ahead over HTTP/2, on a connection and on a stream. Services read short bodies
/// at most, and HTTP/2 knows no smaller window for a connection.
const WINDOW: u32 = 65_535;
/// After which time without data the server pings the client over HTTP/2, and how long the client may take to respond.
const PING: Duration = Duration::from_secs(30);
/// Maximum size of the head of a request on a connection with a verified client certificate, in bytes. The API server has
/// one, and puts commands for containers into queries; an address has 64 KiB at most. Upstream takes heads of 1 MiB.
const VERIFIED_HEAD: u32 = 256 * 1024;
/// Maximum size of the head of a request on all other connections, which any client may open. The longest part of what
/// collectors of metrics send is a token.
const UNVERIFIED_HEAD: u32 = 16 * 1024;

/// Maximum number of concurrent requests on a connection over HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    /// On a connection with a verified client certificate.
    pub verified: u32,
    /// On all other connections.
    pub unverified: u32,
}

impl Streams {
    /// By default, a client without verified certificate gets this many: collectors of metrics request a handful of paths,
    /// and each request may fill a head.
    pub const UNVERIFIED: u32 = 8;
}

/// What serving one connection takes.
pub(crate) struct Connection<S> {
    pub(crate) service: Arc<S>,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) streams: Streams,
    pub(crate) address: SocketAddr,
    pub(crate) activity: Arc<Activity>,
}

/// Serves a connection until it ends, or `stop` is cancelled.
pub(crate) async fn serve_connection<S: Service>(
    connection: Connection<S>,
    stream: TcpStream,
    stop: CancellationToken,
) {
    let Connection { service: server, authenticator, acceptor, streams, address, activity } = connection;
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
    let (head, streams) = tokio::select! {
        is_verified = authenticator.is_verified(&certificates) => match is_verified {
            true => (VERIFIED_HEAD, streams.verified),
            false => (UNVERIFIED_HEAD, streams.unverified),
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
        let under_way = UnderWay::default();
        let connection = http2::Builder::new(under_way.clone())
            .timer(TokioTimer::new())
            .max_concurrent_streams(streams)
            .max_header_list_size(head)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .serve_connection(io, service);
        drive(connection, |connection| connection.graceful_shutdown(), &peer, &stop).await;
        under_way.0.lock().abort_all();
        return;
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(usize::try_from(head).unwrap_or(usize::MAX))
        .serve_connection(io, service)
        .with_upgrades();
    drive(connection, |connection| connection.graceful_shutdown(), &peer, &stop).await;
    let tunnel = peer.tunnel.lock().take();
    if let Some(tunnel) = tunnel {
        stop.run_until_cancelled(tunnel).await;
    }
}

/// Drives a connection to its end. Shuts it down with `finish` when its time is over.
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
    finish(connection.as_mut());
    if timeout(GRACE, connection).await.is_err() {
        tracing::debug!(peer = %peer.address, "Connection is closed though it is in use");
    }
}

/// The requests of a connection over HTTP/2, which end with it.
#[derive(Clone, Default)]
struct UnderWay(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for UnderWay {
    fn execute(&self, stream: F) {
        let mut streams = self.0.lock();
        while streams.try_join_next().is_some() {}
        streams.spawn(stream);
    }
}
