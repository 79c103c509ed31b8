//! One connection to the server.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::future::Either;
use http::{HeaderValue, Request, Response, header::HOST, uri::PathAndQuery};
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::client::legacy::connect::Connection as _;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tower::BoxError;

use super::{
    Options,
    failure::Failure,
    http2::{self, ResponseStream},
    tasks::Tasks,
    tls::Stream,
};
use crate::service::RawBody;

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
    last_used: Mutex<Instant>,
    /// Whether a caller dropped a request before its response was complete, as it does at a deadline.
    given_up_on: AtomicBool,
    tasks: Tasks,
}

enum Sender {
    /// The lock is held only while a request is handed over.
    Http1(Mutex<http1::SendRequest<Body>>),
    Http2(http2::Sender),
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
struct Answer<B: http_body::Body> {
    body: B,
    slot: Slot,
}

impl Connection {
    /// Performs the HTTP handshake over `stream`. The connection then runs in `tasks` until it ends, and calls
    /// `ended`.
    pub(super) async fn establish(
        stream: Stream,
        options: &Options,
        tasks: Tasks,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Self, BoxError> {
        let (sender, limit) = if stream.connected().is_negotiated_h2() {
            let (sender, driver) = http2::handshake(stream, options).await?;
            tasks.spawn(async move {
                log_end(driver.await);
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
        match &self.shared.sender {
            Sender::Http1(sender) if !sender.lock().is_ready() => return None,
            Sender::Http2(sender) if self.open_streams() >= sender.allowed_streams().max(1) => return None,
            Sender::Http1(_) | Sender::Http2(_) => {}
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
        let shared = Arc::clone(&self.connection.shared);
        let outcome = match &shared.sender {
            Sender::Http1(sender) => {
                let sending = sender.lock().try_send_request(origin_form(request));
                sending.await.map(|response| response.map(Either::Left)).map_err(Failure::from)
            }
            Sender::Http2(sender) => sender.send(request).await.map(|response| response.map(Either::Right)),
        };
        match outcome {
            Ok(response) => Ok(response.map(|body| match body {
                Either::Left(body) => Answer::<Incoming> { body, slot: self }.boxed_unsync(),
                Either::Right(body) => Answer::<ResponseStream> { body, slot: self }.boxed_unsync(),
            })),
            Err(failure) => {
                self.over = true;
                Err(failure)
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

impl<B> http_body::Body for Answer<B>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.slot.over = matches!(frame, None | Some(Err(_)));
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

impl<B: http_body::Body> Drop for Answer<B> {
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

fn log_end(outcome: Result<(), impl std::error::Error + 'static>) {
    match outcome {
        Ok(()) => tracing::debug!("Connection ended"),
        Err(error) => tracing::debug!(error = &error as &dyn std::error::Error, "Connection lost"),
    }
}
