//! Passes upgrades on to the runtime's streaming server.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use steersman_serving::tunnel::carry;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::answers::{self, Answer, last};
use super::socket;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// How long the streaming server may take to answer a request for an upgrade, body of a refusal included.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum size of the body of a refusal, in bytes.
const LONGEST_REFUSAL: usize = 1 << 20;

/// Why the streaming server gave no answer that can be passed on. The message is for the client.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("error dialing backend: invalid address {0:?}: it must be http://<host>:<port>/<path>")]
    Address(String),
    #[error("error dialing backend: {0}")]
    Connect(#[source] io::Error),
    #[error("error sending request: {0}")]
    Send(#[source] hyper::Error),
    #[error("error sending request: no answer in {PATIENCE:?}")]
    Timeout,
    #[error("invalid upgrade response: status code {}", .0.as_u16())]
    Status(StatusCode),
}

/// The streaming server's answer to a request for an upgrade.
pub(super) enum Dialed {
    /// The streaming server agreed: the answer to pass on, and the future that carries bytes in both directions once the
    /// answer has been sent.
    Upgraded(Answer, BoxFuture<'static, ()>),
    /// The streaming server refused. The answer is its own.
    Refused(Answer),
}

/// A client's request for an upgrade.
pub(super) struct Upgrade {
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    /// The client's connection after the upgrade.
    pub(super) client: OnUpgrade,
    /// The client's address.
    pub(super) address: IpAddr,
}

/// Passes a request for an upgrade on to the streaming server at `url`, without the client's credentials.
pub(super) async fn dial(url: &str, upgrade: Upgrade) -> Result<Dialed, DialError> {
    let (authority, target) = parse(url).ok_or_else(|| DialError::Address(url.to_owned()))?;
    let dialed = async {
        let stream = TcpStream::connect(authority.as_str()).await.map_err(DialError::Connect)?;
        socket::prepare(&stream).map_err(|error| DialError::Connect(error.into()))?;
        request(stream, target, upgrade).await
    };
    timeout(PATIENCE, dialed).await.unwrap_or(Err(DialError::Timeout))
}

/// Splits a URL into host with port and the request's target. A URL without a scheme is one of HTTP.
fn parse(url: &str) -> Option<(String, Uri)> {
    let with_scheme = if url.contains("://") { url.to_owned() } else { format!("http:{url}") };
    let uri: Uri = with_scheme.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    let target = uri.path_and_query().map_or("/", |target| target.as_str()).parse().ok()?;
    let port = authority.port_u16().unwrap_or(80);
    (scheme == "http").then(|| (format!("{}:{port}", authority.host()), target))
}

async fn request(stream: TcpStream, target: Uri, upgrade: Upgrade) -> Result<Dialed, DialError> {
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = upgrade.method;
    *request.uri_mut() = target;
    *request.headers_mut() = forwarded(upgrade.headers, upgrade.address);

    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(DialError::Send)?;
    // No task drives the connection: each wait for an answer polls it as well.
    let mut connection = Box::pin(connection.with_upgrades().fuse());
    let mut response = {
        let sent = pin!(sender.send_request(request));
        match select(sent, connection.as_mut()).await {
            Either::Left((response, _)) => response,
            Either::Right((Err(error), _)) => Err(error),
            // The connection has ended without an error, so the answer has arrived.
            Either::Right((Ok(()), sent)) => sent.await,
        }
    }
    .map_err(DialError::Send)?;

    let status = response.status();
    if status == StatusCode::SWITCHING_PROTOCOLS {
        let backend = hyper::upgrade::on(&mut response);
        let backend = async move {
            match select(pin!(backend), connection).await {
                Either::Left((upgraded, _)) => upgraded,
                Either::Right((_, backend)) => backend.await,
            }
        };
        let tunnel = Box::pin(carry(upgrade.client, backend));
        return Ok(Dialed::Upgraded(response.map(|_| answers::empty()), tunnel));
    }
    if !status.is_client_error() && !status.is_server_error() {
        return Err(DialError::Status(status));
    }
    Ok(Dialed::Refused(refusal(response, connection).await))
}

/// The headers for the streaming server: the client's without its credentials, and its address.
fn forwarded(mut headers: HeaderMap, address: IpAddr) -> HeaderMap {
    for name in [AUTHORIZATION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    let before = headers.get_all(&FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let all: Vec<_> = before.map(str::to_owned).chain([address.to_string()]).collect();
    if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
        headers.insert(FORWARDED_FOR, value);
    }
    headers
}

/// Reads the streaming server's refusal. The connection to the client is closed after it.
async fn refusal(response: Response<Incoming>, connection: impl Future + Unpin) -> Answer {
    let (head, body) = response.into_parts();
    let read = pin!(Limited::new(body, LONGEST_REFUSAL).collect());
    let read = match select(read, connection).await {
        Either::Left((read, _)) => read,
        Either::Right((_, read)) => read.await,
    };
    let bytes = match read {
        Ok(collected) => collected.to_bytes(),
        Err(error) => {
            tracing::debug!(error, "The streaming server's refusal broke off");
            Bytes::new()
        }
    };
    let mut answer = Response::from_parts(head, Full::new(bytes).boxed_unsync());
    for name in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        answer.headers_mut().remove(name);
    }
    last(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_plain_http() {
        for (url, address) in [
            ("http://127.0.0.1:42/exec/t", Some(("127.0.0.1:42", "/exec/t"))),
            ("http://[::1]:42/exec/t?x=1", Some(("[::1]:42", "/exec/t?x=1"))),
            ("//127.0.0.1:42/exec/t", Some(("127.0.0.1:42", "/exec/t"))),
            ("http://localhost/", Some(("localhost:80", "/"))),
            ("http://localhost", Some(("localhost:80", "/"))),
            ("https://127.0.0.1:42/exec/t", None),
            ("/exec/t", None),
            ("", None),
        ] {
            let parsed = parse(url).map(|(authority, target)| (authority, target.to_string()));
            let expected = address.map(|(authority, target)| (authority.to_owned(), target.to_owned()));
            assert_eq!(parsed, expected, "{url}");
        }
    }

    #[test]
    fn credentials_stay_here_and_the_asker_is_named() {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("3"));
        headers.insert(FORWARDED_FOR, HeaderValue::from_static("10.0.0.1"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        let forwarded = forwarded(headers, [10, 0, 0, 2].into());
        assert_eq!(forwarded.len(), 2);
        assert_eq!(forwarded[FORWARDED_FOR], "10.0.0.1, 10.0.0.2");
    }
}
