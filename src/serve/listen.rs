//! Accepts connections and serves HTTP/1.1 on them.
//!
//! The port asks for no credentials, so any client that reaches it may open connections. The server limits their
//! number, well below the number of descriptors that the process may open, and the time until the next request on each.
//! If all places are taken, a new connection gets the place of the one that has been idle for the longest time. So
//! probes and scrapes get in, and have as much time to ask as others need to fill all places anew.

use std::collections::HashMap;
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
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::activity::Activity;
use super::limits::Limits;

/// Maximum size of a request's head, in bytes. Upstream takes 1 MiB, but here each of many strangers may fill its
/// buffer.
const MAX_HEAD: usize = 32 * 1024;
/// How long to wait after a connection could not be accepted, such as for want of descriptors.
const RETRY: Duration = Duration::from_millis(100);
/// How long answers under way may take when the server stops.
const GRACE: Duration = Duration::from_secs(1);
/// Minimum time between two warnings that there is no room.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// Serves `router` within `limits`, until `stop` is cancelled and the answers under way are sent.
pub(super) async fn serve(listener: TcpListener, router: Router, limits: Limits, stop: CancellationToken) {
    let mut connections = Connections::default();
    let mut warned: Option<Instant> = None;
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = connections.tasks.join_next_with_id() => {
                connections.forget(ended);
                continue;
            }
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "Failed to accept a connection");
                    sleep(RETRY).await;
                    continue;
                }
            },
        };
        if connections.open.len() >= limits.connections {
            if warned.is_none_or(|at| at.elapsed() >= BETWEEN_WARNINGS) {
                tracing::warn!(limit = limits.connections, %peer, "Too many connections are open, closing idle ones");
                warned = Some(Instant::now());
            }
            connections.make_room(limits.connections).await;
        }
        let activity = Arc::new(Activity::accepted());
        let serving =
            serve_connection(stream, peer, router.clone(), Arc::clone(&activity), limits, stop.clone());
        connections.add(serving, activity);
    }
    drop(listener);
    let ended = async { while connections.tasks.join_next().await.is_some() {} };
    if timeout(GRACE, ended).await.is_err() {
        tracing::debug!("Closing connections that did not end in time");
    }
    connections.tasks.shutdown().await;
}

/// The open connections. Dropping it closes them.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    /// One entry for each of `tasks` that has not been joined.
    open: HashMap<Id, (AbortHandle, Arc<Activity>)>,
}

impl Connections {
    fn add(&mut self, serving: impl Future<Output = ()> + Send + 'static, activity: Arc<Activity>) {
        let task = self.tasks.spawn(serving);
        self.open.insert(task.id(), (task, activity));
    }

    /// Closes the longest idle connection, and waits until less than `max` are open.
    async fn make_room(&mut self, max: usize) {
        if let Some((task, _)) = self.open.values().min_by_key(|(_, activity)| activity.idle_since()) {
            task.abort();
        }
        while self.open.len() >= max
            && let Some(ended) = self.tasks.join_next_with_id().await
        {
            self.forget(ended);
        }
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        self.open.remove(&id);
        if let Err(error) = ended
            && error.is_panic()
        {
            tracing::error!(%error, "A connection's task failed");
        }
    }
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
    // Only latency suffers if the system refuses.
    let _ = stream.set_nodelay(true);
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
