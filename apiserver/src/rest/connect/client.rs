//! Asking somebody else, and what comes back.
//!
//! Each request has a connection of its own. The caller that waits for the answer or reads its body drives the connection,
//! which has no task, and ends with its caller. Only the connection's own buffer holds data.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, Either, FutureExt, select};
use futures::{Stream, StreamExt};
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::target::Target;
use super::tls::Outbound;
use super::tunnel::Connection;
use crate::rest::body::{Piece, Reset, ResponseBody};
use crate::rest::request::Request as OurRequest;

/// How long it may take to reach somebody; from upstream.
const CONNECT: Duration = Duration::from_secs(30);
/// How long the other side may take over the handshake; from upstream.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How much is read of a text that says why something failed; from upstream.
const LONGEST_REFUSAL: usize = 50_000;
/// How long such a text may take.
const REFUSAL: Duration = Duration::from_secs(10);

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What concerns one connection only, and is not passed on.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Why there is no answer. For the client, in the words of Go where it has some.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// The connection was refused.
    #[error("dial tcp {0}: {words}", words = words(.1))]
    Connect(String, #[source] io::Error),
    /// The peer did not answer in time.
    #[error("dial tcp {0}: i/o timeout")]
    ConnectTimeout(String),
    /// Somebody else than was expected, or no speaker of TLS.
    #[error("tls: {0}")]
    Handshake(#[source] io::Error),
    /// Somebody who is too slow with that.
    #[error("net/http: TLS handshake timeout")]
    HandshakeTimeout,
    /// The connection broke, or what came is no HTTP.
    #[error("{0}")]
    Send(#[source] hyper::Error),
    /// The request can't be put into words.
    #[error("{0}")]
    Request(#[source] http::Error),
}

fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
        _ => error.to_string(),
    }
}

/// What is asked.
pub(super) struct Asked {
    pub(super) method: Method,
    /// With what follows the question mark.
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Asked {
    /// A question of our own.
    pub(super) fn get(path: String) -> Self {
        Self { method: Method::GET, path, headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// A client's request for an upgrade, as it came, but for what is ours alone.
    pub(super) fn upgrade(request: &OurRequest, path: String) -> Self {
        let mut headers = request.headers.clone();
        strip_ours(&mut headers);
        note_origin(&mut headers, request);
        Self { method: request.method.clone(), path, headers, body: Bytes::new() }
    }

    /// A client's request, as it came, but for what is ours alone and what is of its connection.
    pub(super) fn passed_on(request: &OurRequest, path: String) -> Self {
        let mut headers = request.headers.clone();
        strip_hop_by_hop(&mut headers);
        strip_ours(&mut headers);
        note_origin(&mut headers, request);
        // Over HTTP/2 it stands elsewhere.
        if let Some(authority) = request.uri.authority()
            && !headers.contains_key(HOST)
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            headers.insert(HOST, host);
        }
        Self { method: request.method.clone(), path, headers, body: request.body.clone() }
    }
}

/// Credentials were for us, and the length is told anew.
fn strip_ours(headers: &mut HeaderMap) {
    let impersonation = headers.keys().filter(|name| name.as_str().starts_with("impersonate-")).cloned();
    for name in impersonation.chain([AUTHORIZATION, CONTENT_LENGTH, TRANSFER_ENCODING]).collect::<Vec<_>>() {
        headers.remove(name);
    }
}

/// Takes out what concerns one connection only.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named = values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok());
    for name in named.chain(HOP_BY_HOP).collect::<Vec<HeaderName>>() {
        headers.remove(name);
    }
}

/// Tells for whom we ask.
fn note_origin(headers: &mut HeaderMap, request: &OurRequest) {
    let Some(peer) = request.extensions.get::<Connection>().map(Connection::peer) else { return };
    let before = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let all: Vec<String> = before.map(str::to_owned).chain([peer.to_string()]).collect();
    if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
        headers.insert(FORWARDED_FOR, value);
    }
}

/// A connection's own work, to be done while something is wanted of it.
type Driver = BoxFuture<'static, Result<(), hyper::Error>>;

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

impl Outbound {
    /// Asks, and waits for the head of the answer, however long that takes.
    pub(super) async fn ask(&self, target: &Target, asked: Asked) -> Result<Answered, DialError> {
        let mut request = Request::builder().method(asked.method).uri(asked.path);
        if !asked.headers.contains_key(HOST) {
            request = request.header(HOST, target.authority());
        }
        let mut request = request.body(Full::new(asked.body)).map_err(DialError::Request)?;
        request.headers_mut().extend(asked.headers);
        let stream = self.reach(target).await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(DialError::Send)?;
        let mut driver: Driver = connection.with_upgrades().boxed();
        let sent = pin!(sender.send_request(request));
        let (response, driver) = match select(sent, driver.as_mut()).await {
            Either::Left((response, _)) => (response, Some(driver)),
            // It has ended, well or not: the answer is there, or why there is none.
            Either::Right((_, sent)) => (sent.await, None),
        };
        Ok(Answered { response: response.map_err(DialError::Send)?, driver })
    }

    /// Connects, over TLS where the target wants it.
    async fn reach(&self, target: &Target) -> Result<Box<dyn Io>, DialError> {
        let address = target.authority();
        let connecting = async {
            match &target.checked {
                Some(checked) => {
                    let checked: Vec<_> =
                        checked.iter().map(|ip| SocketAddr::new(*ip, target.port)).collect();
                    TcpStream::connect(checked.as_slice()).await
                }
                None => TcpStream::connect((target.host.as_str(), target.port)).await,
            }
        };
        let stream = timeout(CONNECT, connecting).await;
        let stream = stream.map_err(|_| DialError::ConnectTimeout(address.clone()))?;
        let stream = stream.map_err(|error| DialError::Connect(address.clone(), error))?;
        stream.set_nodelay(true).map_err(|error| DialError::Connect(address, error))?;
        let Some(tls) = self.tls(target.certificates) else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(target.host.clone());
        let name = name.map_err(|error| DialError::Handshake(io::Error::other(error)))?;
        let handshake = TlsConnector::from(tls.clone()).connect(name, stream);
        let stream = timeout(HANDSHAKE, handshake).await.map_err(|_| DialError::HandshakeTimeout)?;
        Ok(Box::new(stream.map_err(DialError::Handshake)?))
    }
}

/// An answer whose body has not been read yet.
pub(super) struct Answered {
    response: Response<Incoming>,
    /// Absent once the connection has nothing more to do.
    driver: Option<Driver>,
}

impl Answered {
    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// A header as text; empty if it is not there.
    pub(super) fn header(&self, name: &HeaderName) -> String {
        let value = self.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    }

    /// What the body begins with, for texts that say why something failed.
    pub(super) async fn beginning(self) -> String {
        let mut text = Vec::new();
        let mut relay = self.relay(CancellationToken::new());
        let read = async {
            while let Some(Ok(pieces)) = relay.next().await {
                text.extend(pieces.iter().flatten());
                if text.len() >= LONGEST_REFUSAL {
                    break;
                }
            }
        };
        // What has come until then must do.
        let _ = timeout(REFUSAL, read).await;
        text.truncate(LONGEST_REFUSAL);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The body, as it comes, until the end or until `stop`.
    pub(super) fn into_body(self, stop: CancellationToken) -> ResponseBody {
        ResponseBody::stream(self.relay(stop))
    }

    fn relay(self, stop: CancellationToken) -> Relay {
        let stop = Box::pin(stop.cancelled_owned());
        Relay { body: self.response.into_body(), driver: self.driver, stop }
    }

    /// The connection itself, where the answer is that it has changed its protocol.
    pub(super) async fn upgraded(self) -> Result<Upgraded, hyper::Error> {
        let upgraded = hyper::upgrade::on(self.response);
        match self.driver {
            None => upgraded.await,
            Some(driver) => match select(upgraded, driver).await {
                Either::Left((upgraded, _)) => upgraded,
                Either::Right((_, upgraded)) => upgraded.await,
            },
        }
    }
}

/// A body with the connection that it comes over.
struct Relay {
    body: Incoming,
    driver: Option<Driver>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Stream for Relay {
    type Item = Result<Piece, Reset>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.stop.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(Reset)));
        }
        loop {
            // How it ended shows in the body.
            if self.driver.as_mut().is_some_and(|driver| driver.as_mut().poll(cx).is_ready()) {
                self.driver = None;
            }
            let frame = match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => return Poll::Pending,
            };
            return Poll::Ready(match frame {
                None => None,
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Some(Ok(vec![data])),
                    // Trailers.
                    Err(_) => continue,
                },
                Some(Err(error)) => {
                    tracing::debug!(%error, "an answer that is passed on broke off");
                    Some(Err(Reset))
                }
            });
        }
    }
}
