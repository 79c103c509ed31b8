//! Requests of hooks: sent to whom the spec names, with no credentials and no questions about certificates.

use std::error::Error as _;
use std::fmt;
use std::io;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST, LOCATION, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri};
use http_body_util::Empty;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};

use crate::container::port;
use crate::{redirect, unverified};

/// As the kubelet names itself to the servers of hooks; the numbers are of the API that is spoken.
const AGENT: &str = "kube-lifecycle/1.36";
/// As many as Go's client follows.
const MAX_REDIRECTS: usize = 10;

/// A client for hooks. Every request has its own connection.
pub(super) struct HttpGet(Client<HttpsConnector<HttpConnector>, Empty<Bytes>>);

/// How a server answered; with which status is all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    /// As it was asked.
    AsAsked,
    /// In HTTP, though asked in HTTPS.
    InPlainHttp,
}

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Target {
    uri: Uri,
    headers: HeaderMap,
}

impl Target {
    /// The request that a hook describes, to `host` on a port of the container or another.
    ///
    /// Errors, in words: the port, the host or a header does not make a request.
    pub(super) fn new(get: &HTTPGetAction, container: &Container, host: &str) -> Result<Self, String> {
        let https = get.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
        let port = port::resolve(&get.port, container)?;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let path = path(get.path.as_deref().unwrap_or_default());
        let scheme = if https { "https" } else { "http" };
        let text = format!("{scheme}://{host}:{port}{path}");
        let uri = text.parse().map_err(|error| format!("parse {text:?}: {error}"))?;
        Ok(Self { uri, headers: headers(get)? })
    }

    /// The same without encryption.
    pub(super) fn in_plain_http(&self) -> Self {
        let mut plain = self.clone();
        let mut parts = plain.uri.into_parts();
        parts.scheme = Some(Scheme::HTTP);
        plain.uri = Uri::from_parts(parts).expect("a URI must stay one under another scheme");
        plain.headers.remove(AUTHORIZATION);
        plain
    }

    /// Host and port.
    pub(super) fn authority(&self) -> &str {
        self.uri.authority().map_or("", |authority| authority.as_str())
    }

    /// The same for another place of the same host, as an answer's headers ask for.
    fn redirected(&self, answer: &HeaderMap) -> Option<Self> {
        let location = answer.get(LOCATION)?.to_str().ok()?;
        let uri = redirect::resolved(&self.uri, location)?;
        uri.host()?
            .eq_ignore_ascii_case(self.uri.host()?)
            .then(|| Self { uri, headers: self.headers.clone() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uri.fmt(f)
    }
}

/// A path with its query, with what a URI can't hold as it is written in percent signs.
fn path(text: &str) -> String {
    let text = text.split('#').next().unwrap_or_default();
    let mut path = if text.starts_with('/') { String::new() } else { String::from("/") };
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

fn headers(get: &HTTPGetAction) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for header in get.http_headers.iter().flatten() {
        let name: HeaderName =
            header.name.parse().map_err(|error| format!("header {:?}: {error}", header.name))?;
        let value = HeaderValue::from_str(&header.value)
            .map_err(|error| format!("the value of header {:?}: {error}", header.name))?;
        headers.append(name, value);
    }
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    for unset in [ACCEPT, HOST] {
        if headers.get(&unset).is_some_and(HeaderValue::is_empty) {
            headers.remove(unset);
        }
    }
    Ok(headers)
}

impl HttpGet {
    pub(super) fn new() -> Self {
        let tls = HttpsConnectorBuilder::new().with_tls_config(unverified::client());
        let connector = tls.https_or_http().enable_http1().build();
        Self(Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector))
    }

    /// Sends the request, follows where the same host points to, and waits for an answer's head.
    ///
    /// Errors, in words: nobody answers, or not in HTTP.
    pub(super) async fn get(&self, target: &Target) -> Result<Answered, String> {
        let mut target = target.clone();
        for _ in 0..MAX_REDIRECTS {
            match self.send(&target).await {
                Ok(answer) if answer.status().is_redirection() => match target.redirected(answer.headers()) {
                    Some(next) => target = next,
                    None => return Ok(Answered::AsAsked),
                },
                Ok(_) => return Ok(Answered::AsAsked),
                Err(error) if is_plain_http(&error) => return Ok(Answered::InPlainHttp),
                Err(error) => return Err(format!("Get {:?}: {}", target.to_string(), in_words(&error))),
            }
        }
        Err(format!("Get {:?}: stopped after {MAX_REDIRECTS} redirects", target.to_string()))
    }

    async fn send(&self, target: &Target) -> Result<Response<hyper::body::Incoming>, Error> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = target.uri.clone();
        *request.headers_mut() = target.headers.clone();
        self.0.request(request).await
    }
}

/// Whether the server did not answer in TLS at all.
fn is_plain_http(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(rustls::Error::InvalidMessage(_)) = cause.downcast_ref() {
            return true;
        }
        // An I/O error hides what it was made from, and tells only what that came of.
        let hidden = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        source = match hidden {
            Some(hidden) => Some(hidden),
            None => cause.source(),
        };
    }
    false
}

fn in_words(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
