//! Accepts connections and serves HTTP/1.1 on them.
//!
//! The port asks for no credentials, so any client that reaches it may open connections. The server limits their
//! number, well below the number of descriptors that the process may open, and the time until the next request on each.
//! If all places are taken, a new connection gets the place of another one by the rule of [`steersman_serving::accept()`]. So probes and
//! scrapes get in, and have as much time to ask as others need to fill all places anew.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use steersman_serving::Evictable;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::activity::Activity;
use super::limits::Limits;

/// Maximum size of a request's head, in bytes. Upstream takes 1 MiB, but here each of many strangers may fill its
/// buffer.
const MAX_HEAD: usize = 32 * 1024;
/// How long answers under way may take when the server stops.
const GRACE: Duration = Duration::from_secs(1);

/// Serves `router` within `limits`, until `stop` is cancelled and the answers under way are sent.
pub(super) async fn serve(listener: TcpListener, router: Router, limits: Limits, stop: CancellationToken) {
    let start = |stream, peer, _: &Arc<Notify>| {
        let activity = Arc::new(Activity::accepted());
        let evictable = Arc::clone(&activity) as Arc<dyn Evictable>;
        (evictable, serve_connection(stream, peer, router.clone(), activity, limits, stop.clone()))
    };
    let mut connections = steersman_serving::accept(listener, limits.connections, &stop, start).await;
    if timeout(GRACE, connections.wait()).await.is_err() {
        tracing::debug!("Closing connections that did not end in time");
    }
    connections.close().await;
}

/// Serves one connection until it ends, has been idle for too long, or `stop` is cancelled and its answer is sent.
async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    activity: Arc<Activity>,
    limits: Limits,
    stop: CancellationToken,
) {
    let service = service_fn(|mut request: Request<Incoming>| {
        activity.asked();
        request.extensions_mut().insert(peer);
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // `activity` bounds that time: hyper knows no difference between the first request and later ones.
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%peer, %error, "Connection broke off");
            }
            return;
        }
        () = activity.expired(&limits) => {
            tracing::debug!(%peer, "Connection was idle for too long");
            return;
        }
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    // The caller limits the time.
    let _ = connection.await;
}
