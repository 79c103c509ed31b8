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
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::prober::{Attempt, Outcome, ProbeError, State, USER_AGENT};
use super::tcp;
use crate::container::port;

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

/// Why there is no answer, in the words of Go.
enum Failed {
    /// Before or while asking: the container is not well.
    Asking(String),
    /// While the answer was read: nothing is known.
    Reading(String),
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
    // Where it was when it failed, for the message.
    let answered = timeout(limit, asked.follow(tls)).await;
    let place = asked.uri.to_string();
    match answered {
        Ok(Ok((status, body))) => Ok(judged(status, &body)),
        Ok(Err(Failed::Asking(why))) => failed(&place, &why),
        Ok(Err(Failed::Reading(why))) => Err(ProbeError::new(State::Failure, why)),
        Err(_) => {
            let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
            failed(&place, why)
        }
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
    async fn follow(&mut self, tls: &Arc<ClientConfig>) -> Result<(StatusCode, Vec<u8>), Failed> {
        let host = self.uri.host().unwrap_or_default().to_owned();
        for _ in 0..REDIRECTS {
            let scheme = self.uri.scheme_str().unwrap_or_default().to_owned();
            let (status, location, body) = self.send(tls).await?;
            let Some(location) = location.filter(|_| is_redirect(status)) else { return Ok((status, body)) };
            let next = resolved(&self.uri, &location)
                .ok_or_else(|| Failed::Asking(format!("failed to parse Location header {location:?}")))?;
            if next.host() != Some(host.as_str()) {
                return Ok((status, body));
            }
            if (scheme.as_str(), next.scheme_str()) != ("https", Some("http"))
                && let Ok(referer) = HeaderValue::try_from(self.uri.to_string())
            {
                self.headers.insert(header::REFERER, referer);
            }
            if location.contains("://") {
                self.host = None;
            }
            self.uri = next;
        }
        Err(Failed::Asking(format!("stopped after {REDIRECTS} redirects")))
    }

    async fn send(&self, tls: &Arc<ClientConfig>) -> Result<(StatusCode, Option<String>, Vec<u8>), Failed> {
        let host = self.uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let secure = self.uri.scheme_str() == Some("https");
        let port = self.uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let stream = tcp::connect(bare, port).await.map_err(Failed::Asking)?;
        if !secure {
            return self.over_http1(stream).await;
        }
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|_| Failed::Asking(format!("tls: {bare:?} is no name of a server")))?;
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
        let stream = stream.map_err(|error| Failed::Asking(error.to_string()))?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            return self.over_http2(stream).await;
        }
        self.over_http1(stream).await
    }

    async fn over_http1(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
    ) -> Result<(StatusCode, Option<String>, Vec<u8>), Failed> {
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(asking)?;
        let mut request = Request::get(self.uri.path_and_query().map_or("/", |path| path.as_str()));
        if let Some(headers) = request.headers_mut() {
            headers.clone_from(&self.headers);
            headers.insert(header::HOST, self.host_header());
        }
        let request =
            request.body(Empty::<Bytes>::new()).map_err(|error| Failed::Asking(error.to_string()))?;
        alongside(connection, async { read(sender.send_request(request).await.map_err(asking)?).await }).await
    }

    async fn over_http2(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(StatusCode, Option<String>, Vec<u8>), Failed> {
        let io = TokioIo::new(stream);
        let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await;
        let (mut sender, connection) = shaken.map_err(asking)?;
        let mut parts = self.uri.clone().into_parts();
        if let Some(host) = self.host.as_ref().and_then(|host| host.to_str().ok()?.parse().ok()) {
            parts.authority = Some(host);
        }
        let uri = Uri::from_parts(parts).map_err(|error| Failed::Asking(error.to_string()))?;
        let mut request = Request::get(uri);
        if let Some(headers) = request.headers_mut() {
            headers.clone_from(&self.headers);
            headers.remove(header::CONNECTION);
        }
        let request =
            request.body(Empty::<Bytes>::new()).map_err(|error| Failed::Asking(error.to_string()))?;
        alongside(connection, async { read(sender.send_request(request).await.map_err(asking)?).await }).await
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

async fn read(answer: Response<Incoming>) -> Result<(StatusCode, Option<String>, Vec<u8>), Failed> {
    let status = answer.status();
    let location = answer.headers().get(header::LOCATION);
    let location = location.and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty());
    let location = location.map(str::to_owned);
    let mut body = answer.into_body();
    let mut read = Vec::new();
    while read.len() < MAX_BODY
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|error| Failed::Reading(told(&error)))?;
        if let Ok(data) = frame.into_data() {
            read.extend_from_slice(&data[..data.len().min(MAX_BODY - read.len())]);
        }
    }
    Ok((status, location, read))
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
    innermost.to_string()
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Where an answer points: an address, or a path on the same server.
fn resolved(from: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next().unwrap_or_default();
    if location.contains("://") {
        return location.parse().ok().filter(|to: &Uri| to.host().is_some());
    }
    let (scheme, authority) = (from.scheme_str()?, from.authority()?);
    if let Some(elsewhere) = location.strip_prefix("//") {
        return format!("{scheme}://{elsewhere}").parse().ok();
    }
    let path = from.path();
    let path = match location.as_bytes().first() {
        Some(b'/') => location.to_owned(),
        Some(b'?') => format!("{path}{location}"),
        None => path.to_owned(),
        Some(_) => format!("{}/{location}", path.rsplit_once('/').map_or("", |(folder, _)| folder)),
    };
    format!("{scheme}://{authority}{path}").parse().ok()
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

    #[test]
    fn redirects_lead_to_addresses_or_paths() {
        let from: Uri = "http://a:1/x/y?z".parse().unwrap();
        for (location, expected) in [
            ("/b", "http://a:1/b"),
            ("b?c", "http://a:1/x/b?c"),
            ("?c", "http://a:1/x/y?c"),
            ("https://a:2/b#d", "https://a:2/b"),
            ("//e/f", "http://e/f"),
        ] {
            assert_eq!(resolved(&from, location).unwrap().to_string(), expected, "{location}");
        }
    }
}
