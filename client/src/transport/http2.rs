//! HTTP/2, by the crate `h2`. hyper's client is built on it too, but runs a task for each request, to which the request and its
//! response pass through channels.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use h2::{Ping, PingPong, Reason, RecvStream, SendStream, client};
use http::{HeaderValue, Method, Request, Response, header::CONTENT_LENGTH};
use http_body::Frame;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{
    Options,
    failure::Failure,
    tls::{Stream, last_read},
};

/// The receive window of one stream, in bytes: how much of a response is buffered for a slow reader. Allows 20 MB/s
/// with a round trip of 50 ms, and is small enough not to matter in memory.
const STREAM_WINDOW: u32 = 1 << 20;
/// The receive window of a connection, in bytes: practically unlimited, as in Go, so that a slow reader does not stop
/// the others.
const CONNECTION_WINDOW: u32 = 1 << 30;
/// Maximum size of a response's headers, in bytes: the warnings that an API server sends may be long.
const HEADER_LIST: u32 = 1 << 20;
/// How many streams may be opened before the server has announced its limit: the least that RFC 9113 recommends to servers.
const UNANNOUNCED_STREAMS: usize = 100;
/// h2 closes the connection once it has reset this many streams itself: because of invalid frames, or of frames that arrive long after
/// the stream's reader was dropped. hyper's default.
const RESETS_BY_H2: usize = 1024;
/// The initial window of a stream in bytes, unless the server's SETTINGS change it (RFC 9113, section 6.9.2). A server has to open the
/// window for a larger body.
const FIRST_WINDOW: usize = 65_535;

/// Sends requests over one connection.
pub(super) struct Sender {
    streams: client::SendRequest<Bytes>,
    state: Arc<State>,
}

/// The state of the connection. The driver writes it, and the sender reads it.
struct State {
    /// No further request can be sent.
    closed: AtomicBool,
    /// The number of streams that the server allows.
    allowed: AtomicUsize,
    /// The connection has ended because the server did not answer a ping.
    silent: AtomicBool,
}

/// Runs one connection: reads, writes, and pings a silent server. Ends when the connection does.
pub(super) struct Driver {
    connection: client::Connection<TokioIo<Stream>, Bytes>,
    keep_alive: Option<KeepAlive>,
    state: Arc<State>,
}

/// Pings the server after a silence, to detect a half-open connection.
struct KeepAlive {
    pings: PingPong,
    last_read: Arc<Mutex<Instant>>,
    /// The end of the silence that is allowed, or of the wait for the answer to a ping.
    timer: Pin<Box<Sleep>>,
    read_idle: Duration,
    ping_timeout: Duration,
    /// Whether a ping has not been answered yet.
    pinged: bool,
}

/// The error with which a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// The connection broke, or the server broke the protocol.
    #[error(transparent)]
    Protocol(#[from] h2::Error),
    /// A ping was not answered in time. For a request, contains the error of its stream.
    #[error("the server does not answer pings")]
    Silence(#[source] Option<h2::Error>),
}

/// The body of a response.
pub(super) struct ResponseStream {
    response: RecvStream,
    _request: Option<LargeBody>,
}

/// The sending side of a request with a large body. Resets the stream when dropped: a server may respond without reading the body, and
/// h2 would then keep the stream and the body until the connection ends.
struct LargeBody(SendStream<Bytes>);

/// Performs the HTTP/2 handshake over `stream`. Nothing is sent or received unless the driver is polled.
pub(super) async fn handshake(stream: Stream, options: &Options) -> Result<(Sender, Driver), h2::Error> {
    let last_read = last_read(&stream);
    let (streams, mut connection) = client::Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADER_LIST)
        .initial_max_send_streams(UNANNOUNCED_STREAMS)
        .max_local_error_reset_streams(Some(RESETS_BY_H2))
        .handshake(TokioIo::new(stream))
        .await?;
    let state = Arc::new(State {
        closed: AtomicBool::new(false),
        allowed: AtomicUsize::new(usize::MAX),
        silent: AtomicBool::new(false),
    });
    // h2 gives them to the first who asks.
    let keep_alive = connection.ping_pong().map(|pings| KeepAlive::new(pings, last_read, options));
    Ok((Sender { streams, state: Arc::clone(&state) }, Driver { connection, keep_alive, state }))
}

impl Sender {
    /// Whether no further request can be sent. Open streams may continue.
    pub(super) fn is_closed(&self) -> bool {
        self.state.closed.load(Ordering::Relaxed)
    }

    /// The maximum number of streams that the server has announced.
    pub(super) fn allowed_streams(&self) -> usize {
        self.state.allowed.load(Ordering::Relaxed)
    }

    /// Sends a request whose URI is absolute, and waits for the head of the response. A future that is dropped resets the stream.
    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<ResponseStream>, Failure> {
        let mut streams = self.streams.clone();
        if poll_fn(|cx| streams.poll_ready(cx)).await.is_err() {
            self.state.closed.store(true, Ordering::Relaxed);
            return Err(Failure::Unsent(Box::new(request)));
        }
        let (mut head, body) = request.into_parts();
        // This does not wait: the body of a `kube` request is in memory.
        let body = body.collect_bytes().await.map_err(Failure::sent)?;
        if !body.is_empty() || matches!(head.method, Method::POST | Method::PUT | Method::PATCH) {
            head.headers.entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(body.len()));
        }
        let head = Request::from_parts(head, ());
        let (response, mut stream) = streams.send_request(head, body.is_empty()).map_err(Failure::sent)?;
        let is_large = body.len() > FIRST_WINDOW;
        if !body.is_empty() {
            // h2 buffers what exceeds the window. An error means that the stream has already been reset, and `response` returns that
            // error as well.
            drop(stream.send_data(body, true));
        }
        drop(streams);
        let request = is_large.then(|| LargeBody(stream));
        match response.await {
            Ok(response) => Ok(response.map(|response| ResponseStream { response, _request: request })),
            Err(error) if self.state.silent.load(Ordering::Relaxed) => {
                Err(Failure::sent(End::Silence(Some(error))))
            }
            Err(error) => Err(Failure::sent(error)),
        }
    }
}

impl Drop for LargeBody {
    fn drop(&mut self) {
        // Sends nothing if the whole body has been sent.
        self.0.send_reset(Reason::CANCEL);
    }
}

impl Future for Driver {
    type Output = Result<(), End>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { connection, keep_alive, state } = &mut *self;
        let ended = Pin::new(&mut *connection).poll(cx);
        state.allowed.store(connection.max_concurrent_send_streams(), Ordering::Relaxed);
        let end = match (ended, keep_alive) {
            (Poll::Ready(end), _) => end.map_err(End::from),
            (Poll::Pending, Some(keep_alive)) => {
                ready!(keep_alive.poll(cx));
                state.silent.store(true, Ordering::Relaxed);
                Err(End::Silence(None))
            }
            (Poll::Pending, None) => return Poll::Pending,
        };
        state.closed.store(true, Ordering::Relaxed);
        Poll::Ready(end)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The driver's task may be dropped before the connection has ended.
        self.state.closed.store(true, Ordering::Relaxed);
    }
}

impl KeepAlive {
    fn new(pings: PingPong, last_read: Arc<Mutex<Instant>>, options: &Options) -> Self {
        let Options { read_idle, ping_timeout, .. } = *options;
        let timer = Box::pin(sleep_until(Instant::now() + read_idle));
        Self { pings, last_read, timer, read_idle, ping_timeout, pinged: false }
    }

    /// Sends a ping after `read_idle` without a byte from the server. Ready if the ping is not answered within `ping_timeout`.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            // An error of a ping is ignored: `Connection::poll` returns it as well.
            if self.pinged && matches!(self.pings.poll_pong(cx), Poll::Ready(Ok(_))) {
                self.pinged = false;
                self.wait_for_silence();
            }
            ready!(self.timer.as_mut().poll(cx));
            if self.pinged {
                return Poll::Ready(());
            }
            if self.silent_since() + self.read_idle > Instant::now() {
                self.wait_for_silence();
                continue;
            }
            drop(self.pings.send_ping(Ping::opaque()));
            self.pinged = true;
            self.timer.as_mut().reset(Instant::now() + self.ping_timeout);
        }
    }

    fn silent_since(&self) -> Instant {
        *self.last_read.lock()
    }

    fn wait_for_silence(&mut self) {
        let end = self.silent_since() + self.read_idle;
        self.timer.as_mut().reset(end);
    }
}

impl http_body::Body for ResponseStream {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let stream = &mut self.response;
        match ready!(stream.poll_data(cx)) {
            Some(Ok(data)) => {
                // Fails only if more is released than was received.
                drop(stream.flow_control().release_capacity(data.len()));
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.response.is_end_stream()
    }
}
