//! Probes that ask by HTTP.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::HTTPGetAction;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::prober::{Attempt, Outcome, ProbeError, State, USER_AGENT};
use super::tcp;
use crate::container::port;
use crate::{redirect, unverified};

/// So much of an answer is read, in bytes.
const MAX_BODY: usize = 10 << 10;
/// How often an answer may point elsewhere.
const REDIRECTS: usize = 10;

/// A request, as it can be sent again elsewhere on the same host.
struct Asked {
    uri: Uri,
    headers: HeaderMap,
    /// What the request says in `Host`, where it is not the address.
    host: Option<HeaderValue>,
}

/// The head of an answer, and what became of its body.
struct Answer {
    status: StatusCode,
    location: Option<String>,
    body: Result<Vec<u8>, Failed>,
}

/// Why there is no answer, in the words of Go.
enum Failed {
    /// Before or while asking: the container is not well.
    Asking(String),
    /// While the answer was read: nothing is known.
    Reading(String),
}

/// TLS as probes speak it: HTTP/2 and HTTP/1.1, with any certificate.
pub(super) fn tls() -> Arc<ClientConfig> {
    let mut config = unverified::client();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Asks, and says what the answer means: below 300 is good, below 400 too but odd.
pub(super) async fn probe(
    get: &HTTPGetAction,
    pod_ip: &str,
    port: u16,
    limit: Duration,
    tls: &Arc<ClientConfig>,
) -> Attempt {
    let url = url(get, pod_ip, port);
    let failed = |url: &str, why: &str| Ok(Outcome::new(State::Failure, format!("Get {url:?}: {why}")));
    let mut asked = match Asked::new(&url, get) {
        Ok(asked) => asked,
        Err(why) => return failed(&url, &why),
    };
    match asked.follow(tls, Instant::now() + limit).await {
        Ok((status, body)) => Ok(judged(status, &body)),
        // Where it was when it failed.
        Err(Failed::Asking(why)) => failed(&asked.uri.to_string(), &why),
        Err(Failed::Reading(why)) => Err(ProbeError::new(State::Failure, why)),
    }
}

fn judged(status: StatusCode, body: &[u8]) -> Outcome {
    let body = String::from_utf8_lossy(body);
    match status.as_u16() {
        200..300 => Outcome::new(State::Success, body),
        300..400 => {
            Outcome::new(State::Warning, format!("Probe terminated redirects, Response body: {body}"))
        }
        // Without the body, which may have what events should not.
        code => Outcome::new(State::Failure, format!("HTTP probe failed with statuscode: {code}")),
    }
}

/// The address that is asked. What a path may not have is escaped.
fn url(get: &HTTPGetAction, pod_ip: &str, port: u16) -> String {
    let scheme = match get.scheme.as_deref() {
        None | Some("") => "http".to_owned(),
        Some(scheme) => scheme.to_lowercase(),
    };
    let host = get.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(pod_ip);
    let path = get.path.as_deref().unwrap_or_default();
    // Go parses the path as an address, and takes from it what is no host.
    let path = match path.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            rest.find('/').map_or("", |at| &rest[at..])
        }
        _ => path,
    };
    let path = path.split('#').next().unwrap_or_default();
    let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{}{slash}{}", port::join(host, port), escaped(path))
}

fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0..=b' ' | 0x7f.. => {
                text.push_str(&format!("%{byte:02X}"));
            }
            byte => text.push(char::from(byte)),
        }
    }
    text
}

impl Asked {
    fn new(url: &str, get: &HTTPGetAction) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("parse: {error}"))?;
        let mut headers = HeaderMap::new();
        for given in get.http_headers.iter().flatten() {
            let name = HeaderName::try_from(&given.name)
                .map_err(|_| format!("net/http: invalid header field name {:?}", given.name))?;
            let value = HeaderValue::try_from(&given.value)
                .map_err(|_| format!("net/http: invalid header field value for {:?}", given.name))?;
            headers.append(name, value);
        }
        for (name, default) in [(header::USER_AGENT, USER_AGENT), (header::ACCEPT, "*/*")] {
            match headers.get(&name) {
                None => _ = headers.insert(name, HeaderValue::from_static(default)),
                // An empty one takes it away.
                Some(value) if value.is_empty() => _ = headers.remove(name),
                Some(_) => {}
            }
        }
        let host = headers.remove(header::HOST).filter(|host| !host.is_empty());
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        Ok(Self { uri, headers, host })
    }

    /// Asks, and asks again where the answer points, as long as that is the same host.
    async fn follow(
        &mut self,
        tls: &Arc<ClientConfig>,
        deadline: Instant,
    ) -> Result<(StatusCode, Vec<u8>), Failed> {
        let host = self.uri.host().unwrap_or_default().to_owned();
        for _ in 0..REDIRECTS {
            let scheme = self.uri.scheme_str().unwrap_or_default().to_owned();
            let Answer { status, location, body } = self.send(tls, deadline).await?;
            let Some(location) = location.filter(|_| is_redirect(status)) else { return Ok((status, body?)) };
            let next = redirect::resolved(&self.uri, &location)
                .ok_or_else(|| Failed::Asking(format!("failed to parse Location header {location:?}")))?;
            if !next.host().is_some_and(|next| next.eq_ignore_ascii_case(&host)) {
                return Ok((status, body?));
            }
            if (scheme.as_str(), next.scheme_str()) != ("https", Some("http"))
                && let Ok(referer) = HeaderValue::try_from(self.uri.to_string())
            {
                self.headers.insert(header::REFERER, referer);
            }
            if redirect::is_absolute(&location) {
                self.host = None;
            }
            self.uri = next;
        }
        Err(Failed::Asking(format!("stopped after {REDIRECTS} redirects")))
    }

    async fn send(&self, tls: &Arc<ClientConfig>, deadline: Instant) -> Result<Answer, Failed> {
        let secure = match self.uri.scheme_str().unwrap_or_default() {
            "http" => false,
            "https" => true,
            other => return Err(Failed::Asking(format!("unsupported protocol scheme {other:?}"))),
        };
        let host = self.uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let port = self.uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let stream = before(deadline, tcp::connect(bare, port)).await?.map_err(Failed::Asking)?;
        if !secure {
            return self.over_http1(stream, deadline).await;
        }
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|_| Failed::Asking(format!("tls: {bare:?} is no name of a server")))?;
        let shaking = TlsConnector::from(Arc::clone(tls)).connect(name, stream);
        let stream = before(deadline, shaking).await?.map_err(|error| Failed::Asking(error.to_string()))?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            return self.over_http2(stream, deadline).await;
        }
        self.over_http1(stream, deadline).await
    }

    async fn over_http1(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        deadline: Instant,
    ) -> Result<Answer, Failed> {
        let shaking = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = before(deadline, shaking).await?.map_err(asking)?;
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut headers = self.headers.clone();
        headers.insert(header::HOST, self.host_header());
        let request = request(path, headers)?;
        alongside(connection, answered(sender.send_request(request), deadline)).await
    }

    async fn over_http2(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        deadline: Instant,
    ) -> Result<Answer, Failed> {
        let shaking = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = before(deadline, shaking).await?.map_err(asking)?;
        let mut parts = self.uri.clone().into_parts();
        if let Some(host) = self.host.as_ref().and_then(|host| host.to_str().ok()?.parse().ok()) {
            parts.authority = Some(host);
        }
        let uri = Uri::from_parts(parts).map_err(|error| Failed::Asking(error.to_string()))?;
        let mut headers = self.headers.clone();
        headers.remove(header::CONNECTION);
        let request = request(uri, headers)?;
        alongside(connection, answered(sender.send_request(request), deadline)).await
    }

    fn host_header(&self) -> HeaderValue {
        let address =
            || HeaderValue::try_from(self.uri.authority().map_or("", |authority| authority.as_str()));
        self.host.clone().or_else(|| address().ok()).unwrap_or_else(|| HeaderValue::from_static(""))
    }
}

/// Does `work` while the connection is driven; the connection ends with it.
async fn alongside<T>(
    connection: impl Future<Output = hyper::Result<()>>,
    work: impl Future<Output = T>,
) -> T {
    let (mut connection, mut work) = (pin!(connection), pin!(work));
    tokio::select! {
        biased;
        done = &mut work => done,
        // What it got is still to be read; if it failed, the work fails of it.
        _ = &mut connection => work.await,
    }
}

fn request<U>(uri: U, headers: HeaderMap) -> Result<Request<Empty<Bytes>>, Failed>
where
    Uri: TryFrom<U>,
    <Uri as TryFrom<U>>::Error: Into<http::Error>,
{
    let request = Request::get(uri).body(Empty::new());
    let mut request = request.map_err(|error| Failed::Asking(error.to_string()))?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// What comes of `work`, if it comes in time. All that happens before the head of an answer is there is so bounded.
async fn before<T>(deadline: Instant, work: impl Future<Output = T>) -> Result<T, Failed> {
    timeout_at(deadline, work).await.map_err(|_| {
        let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
        Failed::Asking(why.to_owned())
    })
}

async fn answered(
    sending: impl Future<Output = hyper::Result<Response<Incoming>>>,
    deadline: Instant,
) -> Result<Answer, Failed> {
    let answer = before(deadline, sending).await?.map_err(asking)?;
    let location = answer.headers().get(header::LOCATION);
    let location = location.and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty());
    let (status, location) = (answer.status(), location.map(str::to_owned));
    let body = timeout_at(deadline, read(answer.into_body())).await.unwrap_or_else(|_| {
        let why = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
        Err(Failed::Reading(why.to_owned()))
    });
    Ok(Answer { status, location, body })
}

async fn read(mut body: Incoming) -> Result<Vec<u8>, Failed> {
    let mut read = Vec::new();
    while read.len() < MAX_BODY
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|error| Failed::Reading(told(&error)))?;
        if let Ok(data) = frame.into_data() {
            read.extend_from_slice(&data[..data.len().min(MAX_BODY - read.len())]);
        }
    }
    Ok(read)
}

fn asking(error: hyper::Error) -> Failed {
    Failed::Asking(told(&error))
}

/// The innermost reason says what happened.
fn told(error: &hyper::Error) -> String {
    if error.is_incomplete_message() {
        return "EOF".to_owned();
    }
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match innermost.downcast_ref::<std::io::Error>() {
        Some(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => "unexpected EOF".to_owned(),
        _ => innermost.to_string(),
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_made_of_what_the_probe_says() {
        let get = |scheme: &str, host: &str, path: &str| HTTPGetAction {
            scheme: Some(scheme.into()),
            host: Some(host.into()),
            path: Some(path.into()),
            ..Default::default()
        };
        for (get, expected) in [
            (get("", "", "/healthz"), "http://10.0.0.1:80/healthz"),
            (get("HTTPS", "", "healthz?a=b"), "https://10.0.0.1:80/healthz?a=b"),
            (get("HTTP", "example.com", ""), "http://example.com:80"),
            (get("HTTP", "::1", "/a b"), "http://[::1]:80/a%20b"),
            (get("HTTP", "", "/a%20b#c"), "http://10.0.0.1:80/a%20b"),
            (get("HTTP", "", "http://elsewhere/x?y=z"), "http://10.0.0.1:80/x?y=z"),
            (get("HTTP", "", "/to?url=http://elsewhere"), "http://10.0.0.1:80/to?url=http://elsewhere"),
        ] {
            assert_eq!(url(&get, "10.0.0.1", 80), expected);
        }
    }
}
