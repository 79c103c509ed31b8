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
/// How much the head of a request may have, in bytes. An address has 64 KiB at most. Upstream takes 1 MiB, which anybody may
/// send: with as many connections, and as many requests at a time, there would not be room for that.
const LONGEST_HEAD: u32 = 256 * 1024;
/// How long the head of a later request may take.
const HEAD: Duration = Duration::from_secs(90);
/// Requests at a time over HTTP/2.
const STREAMS: u32 = 250;
/// After which time without a sign of the other end it is asked for one, and how long it may take to give it.
const PING: Duration = Duration::from_secs(30);

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
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(LONGEST_HEAD)
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
        .max_buf_size(usize::try_from(LONGEST_HEAD).unwrap_or(usize::MAX))
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
