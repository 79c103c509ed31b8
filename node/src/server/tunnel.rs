//! Passing an upgrade on to the runtime's streaming server, and carrying what follows.

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
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::answers::{self, Answer, last};
use super::socket;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// How long the streaming server may take to answer an upgrade, and to say why it does not upgrade.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the words for that may be, in bytes.
const LONGEST_REFUSAL: usize = 1 << 20;
/// How long one direction may go on after the other has ended: what is on its way arrives, and nobody stays for ever.
const LINGER: Duration = Duration::from_secs(30);

/// Why an upgrade came to nothing, before the streaming server said anything about it. For the one who asked.
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

/// What the streaming server made of an upgrade.
pub(super) enum Dialed {
    /// It agreed: the answer to pass back, and what carries bytes in both directions once that has been sent.
    Upgraded(Answer, BoxFuture<'static, ()>),
    /// It refused, in its own words.
    Refused(Answer),
}

/// A request for an upgrade that is to be passed on.
pub(super) struct Upgrade {
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    /// The upgraded connection of the one who asks.
    pub(super) client: OnUpgrade,
    /// Who asks.
    pub(super) address: IpAddr,
}

/// Passes an upgrade on to the streaming server at `url`. The request goes as it came, but for its credentials.
pub(super) async fn dial(url: &str, upgrade: Upgrade) -> Result<Dialed, DialError> {
    let (authority, target) = parse(url).ok_or_else(|| DialError::Address(url.to_owned()))?;
    let dialed = async {
        let stream = TcpStream::connect(authority.as_str()).await.map_err(DialError::Connect)?;
        socket::prepare(&stream).map_err(|error| DialError::Connect(error.into()))?;
        request(stream, target, upgrade).await
    };
    timeout(PATIENCE, dialed).await.unwrap_or(Err(DialError::Timeout))
}

/// Host and port, and what to ask for there. Without a scheme it is HTTP.
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
    // The connection makes progress only while it is waited for together with what is wanted of it.
    let mut connection = Box::pin(connection.with_upgrades().fuse());
    let mut response = {
        let sent = pin!(sender.send_request(request));
        match select(sent, connection.as_mut()).await {
            Either::Left((response, _)) => response,
            Either::Right((Err(error), _)) => Err(error),
            // It has ended well: the answer is there.
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

/// The headers for the streaming server: those that came, without what it has no business with.
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

/// The words of a streaming server that does not upgrade, as they came; the last on their connection.
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

/// Waits for both connections to be upgraded, then carries bytes both ways until both directions have ended.
async fn carry(client: OnUpgrade, backend: impl Future<Output = hyper::Result<Upgraded>>) {
    let (client, backend) = match tokio::try_join!(client, backend) {
        Ok((client, backend)) => (TokioIo::new(client), TokioIo::new(backend)),
        Err(error) => {
            tracing::debug!(%error, "An upgrade broke off");
            return;
        }
    };
    if let Err(error) = carry_both(client, backend).await {
        tracing::debug!(%error, "A tunnelled connection broke off");
    }
}

/// An end in one direction is passed on; an error ends both.
async fn carry_both<A, B>(a: A, b: B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let ((a_read, a_write), (b_read, b_write)) = (split(a), split(b));
    let forth = pin!(carry_one(a_read, b_write));
    let back = pin!(carry_one(b_read, a_write));
    match select(forth, back).await {
        Either::Left((ended, back)) => ended.and(linger(back).await),
        Either::Right((ended, forth)) => ended.and(linger(forth).await),
    }
}

async fn carry_one(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    copy(&mut from, &mut to).await?;
    to.shutdown().await
}

async fn linger(rest: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    timeout(LINGER, rest).await.unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};
    use tokio::time::Instant;

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

    #[tokio::test(start_paused = true)]
    async fn an_end_is_passed_on_and_the_other_direction_may_finish() {
        let ((mut a, near), (far, mut b)) = (duplex(64), duplex(64));
        let (ended, ()) = tokio::join!(carry_both(near, far), async {
            a.write_all(b"question").await.unwrap();
            a.shutdown().await.unwrap();
            let mut text = String::new();
            b.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "question");
            b.write_all(b"answer").await.unwrap();
            b.shutdown().await.unwrap();
            text.clear();
            a.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "answer");
        });
        ended.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_does_not_end_is_not_waited_for() {
        let ((a, near), (far, _b)) = (duplex(64), duplex(64));
        drop(a);
        let began = Instant::now();
        carry_both(near, far).await.unwrap();
        assert!(began.elapsed() >= LINGER);
    }
}
