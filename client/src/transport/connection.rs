//! One connection to the server.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header::HOST, uri::PathAndQuery};
use http_body_util::BodyExt;
use hyper::{
    body::{Body as _, Frame, Incoming, SizeHint},
    client::conn::{http1, http2},
};
use hyper_util::{client::legacy::connect::Connection as _, rt::TokioTimer};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tower::BoxError;

use super::{Options, tasks::Tasks, tls::Stream};
use crate::service::RawBody;

/// The receive window of one stream, in bytes: how much of a response is buffered for a slow reader. Allows 20 MB/s
/// with a round trip of 50 ms, and is small enough not to matter in memory.
const STREAM_WINDOW: u32 = 1 << 20;
/// The receive window of a connection, in bytes: practically unlimited, as in Go, so that a slow reader does not stop
/// the others.
const CONNECTION_WINDOW: u32 = 1 << 30;
/// Maximum size of a response's headers, in bytes. The warnings that an API server sends may exceed hyper's 16 KB.
const HEADER_LIST: u32 = 1 << 20;

/// An established connection. Cheap to clone; all clones are the same connection.
#[derive(Clone)]
pub(super) struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    sender: Sender,
    /// One permit for each stream. A stream returns its permit when the response's body is dropped.
    streams: Arc<Semaphore>,
    limit: u32,
    /// The maximum number of streams that the server has announced.
    announced: Arc<AtomicUsize>,
    last_used: Mutex<Instant>,
    /// Whether a caller dropped a request before its response was complete, as it does at a deadline.
    given_up_on: AtomicBool,
    tasks: Tasks,
}

enum Sender {
    /// The lock is held only while a request is handed over.
    Http1(Mutex<http1::SendRequest<Body>>),
    Http2(http2::SendRequest<Body>),
}

/// A reserved stream, then the open stream. Dropping it before the response is complete marks the connection as given
/// up on.
pub(super) struct Slot {
    connection: Connection,
    /// Whether the response is complete or the stream has failed. If not, dropping the slot means giving up.
    over: bool,
    _permit: OwnedSemaphorePermit,
}

/// The body of a response. Keeps the stream until it is dropped.
struct Answer {
    body: Incoming,
    slot: Slot,
}

/// How a request failed.
pub(super) enum Failure {
    /// The connection had ended before any part of the request was sent. Contains the request.
    Unsent(Box<Request<Body>>),
    /// The request, or part of it, was sent.
    Sent(hyper::Error),
}

impl Connection {
    /// Performs the HTTP handshake over `stream`. The connection then runs in `tasks` until it ends, and calls
    /// `ended`.
    pub(super) async fn establish(
        stream: Stream,
        options: &Options,
        tasks: Tasks,
        ended: impl FnOnce() + Send + 'static,
    ) -> hyper::Result<Self> {
        let announced = Arc::new(AtomicUsize::new(usize::MAX));
        let (sender, limit) = if stream.connected().is_negotiated_h2() {
            let (sender, connection) = http2::Builder::new(tasks.clone())
                .timer(TokioTimer::new())
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_header_list_size(HEADER_LIST)
                .keep_alive_interval(options.read_idle)
                .keep_alive_timeout(options.ping_timeout)
                .keep_alive_while_idle(true)
                .handshake(stream)
                .await?;
            let announced = announced.clone();
            tasks.spawn(async move {
                let mut connection = connection;
                let outcome = std::future::poll_fn(|cx| {
                    let state = std::pin::Pin::new(&mut connection).poll(cx);
                    announced.store(connection.current_max_send_streams(), Ordering::Relaxed);
                    state
                });
                log_end(outcome.await);
                ended();
            });
            (Sender::Http2(sender), options.streams_per_connection.max(1))
        } else {
            let (mut sender, connection) = http1::handshake(stream).await?;
            tasks.spawn(async move {
                log_end(connection.await);
                ended();
            });
            // The sender takes no request before the task has run once.
            sender.ready().await?;
            (Sender::Http1(Mutex::new(sender)), 1)
        };
        let shared = Shared {
            sender,
            streams: Arc::new(Semaphore::new(limit as usize)),
            limit,
            announced,
            last_used: Mutex::new(Instant::now()),
            given_up_on: AtomicBool::new(false),
            tasks,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Whether no more requests can be sent. Open streams may continue.
    pub(super) fn is_closed(&self) -> bool {
        self.shared.tasks.is_cut()
            || match &self.shared.sender {
                Sender::Http1(sender) => sender.lock().is_closed(),
                Sender::Http2(sender) => sender.is_closed(),
            }
    }

    pub(super) fn is_http2(&self) -> bool {
        matches!(self.shared.sender, Sender::Http2(_))
    }

    /// Reserves a stream, if one is free. The caller must not call this concurrently.
    pub(super) fn reserve(&self) -> Option<Slot> {
        if self.open_streams() >= self.shared.announced.load(Ordering::Relaxed).max(1) {
            return None;
        }
        if let Sender::Http1(sender) = &self.shared.sender
            && !sender.lock().is_ready()
        {
            return None;
        }
        let permit = self.shared.streams.clone().try_acquire_owned().ok()?;
        *self.shared.last_used.lock() = Instant::now();
        Some(Slot { connection: self.clone(), over: false, _permit: permit })
    }

    pub(super) fn open_streams(&self) -> usize {
        (self.shared.limit as usize).saturating_sub(self.shared.streams.available_permits())
    }

    /// Since when the connection has been idle, or `None` if it is in use.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.open_streams() == 0).then(|| *self.shared.last_used.lock())
    }

    /// Whether a caller gave up waiting for a response. The connection may be half-open.
    pub(super) fn was_given_up_on(&self) -> bool {
        self.shared.given_up_on.load(Ordering::Relaxed)
    }

    /// Waits until no stream is open. The caller must not reserve streams meanwhile.
    pub(super) async fn drained(&self) {
        // There is no error, since the semaphore is never closed.
        drop(self.shared.streams.acquire_many(self.shared.limit).await);
    }

    /// Closes the connection at once. Open streams end with an error.
    pub(super) fn cut(&self) {
        self.shared.tasks.cut();
    }
}

impl Slot {
    /// Sends a request whose URI is absolute. The response's body keeps the stream until it is dropped.
    pub(super) async fn send(mut self, request: Request<Body>) -> Result<Response<RawBody>, Failure> {
        let outcome = match &self.connection.shared.sender {
            Sender::Http1(sender) => {
                let sending = sender.lock().try_send_request(origin_form(request));
                sending.await
            }
            Sender::Http2(sender) => sender.clone().try_send_request(request).await,
        };
        match outcome {
            Ok(response) => Ok(response.map(|body| Answer { body, slot: self }.boxed_unsync())),
            Err(mut error) => {
                self.over = true;
                match error.take_message() {
                    Some(request) => Err(Failure::Unsent(Box::new(request))),
                    None => Err(Failure::Sent(error.into_error())),
                }
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.over {
            self.connection.shared.given_up_on.store(true, Ordering::Relaxed);
        }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.slot.over = matches!(frame, None | Some(Err(_)));
        Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // A reader may stop after the last byte, before it has seen the end.
        self.slot.over |= self.body.is_end_stream();
    }
}

/// Rewrites a request for HTTP/1.1: the URI becomes the path, and the host becomes a header.
fn origin_form(mut request: Request<Body>) -> Request<Body> {
    if let Some(authority) = request.uri().authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        request.headers_mut().insert(HOST, host);
    }
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = path.into();
    request
}

fn log_end(outcome: hyper::Result<()>) {
    match outcome {
        Ok(()) => tracing::debug!("Connection ended"),
        Err(error) => tracing::debug!(error = &error as &dyn std::error::Error, "Connection lost"),
    }
}
