//! Passes requests on to the API server, unless the fault of the hour says otherwise.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use kube::client::Body;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::fault::{Answer, Asked, Fault, Verdict, judge};
use crate::identities::Identities;
use crate::watching::{Stalls, Watching};

/// The body of a response to the client.
pub(crate) type Out = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// The largest body of a request, in bytes: what API servers accept, and more.
const LARGEST: usize = 8 << 20;

/// Headers that belong to one connection, and credentials: the proxy has its own.
const NOT_PASSED: [&str; 7] =
    ["connection", "host", "authorization", "transfer-encoding", "upgrade", "te", "content-length"];

/// The state that all connections share.
pub(crate) struct Proxy {
    upstream: kube::Client,
    pub(crate) identities: Identities,
    fault: watch::Sender<Fault>,
    stalls: Stalls,
    /// The connections that are cut when a fault asks for that. Replaced each time.
    connections: watch::Sender<CancellationToken>,
    pub(crate) requests: AtomicU64,
    pub(crate) accepted: AtomicU64,
}

impl Proxy {
    pub(crate) fn new(upstream: kube::Client, identities: Identities) -> Self {
        Self {
            upstream,
            identities,
            fault: watch::Sender::new(Fault::None),
            stalls: Stalls::default(),
            connections: watch::Sender::new(CancellationToken::new()),
            requests: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
        }
    }

    /// The fault of the hour.
    pub(crate) fn fault(&self) -> watch::Receiver<Fault> {
        self.fault.subscribe()
    }

    /// Ends one fault and begins another.
    ///
    /// # Errors
    /// The client's new certificate can't be written.
    pub(crate) fn switch(&self, to: Fault) -> Result<(), Error> {
        let from = self.fault.send_replace(to);
        if from == Fault::ClientCertificate && to != from {
            self.identities.issue()?;
        }
        match to {
            Fault::Absent | Fault::ServerCertificate => {
                self.connections.send_replace(CancellationToken::new()).cancel();
            }
            Fault::ClientCertificate => self.identities.expire_client(),
            Fault::Stalled => self.stalls.begin(),
            _ => {}
        }
        Ok(())
    }

    /// A token for a new connection: when it is cancelled, the connection is to be cut.
    pub(crate) fn connection(&self) -> CancellationToken {
        self.connections.borrow().child_token()
    }

    /// Answers one request of a connection.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        client: Option<&CertificateDer<'_>>,
        connection: &CancellationToken,
    ) -> Response<Out> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let uri = request.uri();
        let asked = Asked::of(request.method(), uri.path(), uri.query().unwrap_or_default());
        let fault = *self.fault.borrow();
        match judge(fault, asked, number, self.identities.is_valid(client)) {
            Verdict::Answer(answer) => respond(answer),
            Verdict::Cut => {
                connection.cancel();
                std::future::pending().await
            }
            Verdict::Pass(after) => {
                if !after.is_zero() {
                    sleep(after).await;
                }
                self.pass(request, asked).await.unwrap_or_else(|error| respond(Answer::unavailable(&error)))
            }
        }
    }

    async fn pass(&self, request: Request<Incoming>, asked: Asked) -> Result<Response<Out>, String> {
        let (head, body) = request.into_parts();
        let body = Limited::new(body, LARGEST).collect().await.map_err(|error| error.to_string())?.to_bytes();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut onward = Request::new(Body::from(body.to_vec()));
        *onward.method_mut() = head.method;
        *onward.uri_mut() = path.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        *onward.headers_mut() = head.headers;
        NOT_PASSED.iter().for_each(|name| _ = onward.headers_mut().remove(*name));
        let mut response = self.upstream.send(onward).await.map_err(|error| error.to_string())?;
        response.headers_mut().remove(header::CONNECTION);
        response.headers_mut().remove(header::TRANSFER_ENCODING);
        // The client's side has a version of its own.
        *response.version_mut() = http::Version::default();
        Ok(response.map(|body| match (asked, *self.fault.borrow()) {
            (Asked::Watch, Fault::Stalled) => {
                Watching::silent(body, self.stalls.clone()).map_err(Into::into).boxed_unsync()
            }
            (Asked::Watch, _) => Watching::new(body, self.stalls.clone()).map_err(Into::into).boxed_unsync(),
            _ => body.map_err(Into::into).boxed_unsync(),
        }))
    }
}

fn respond(answer: Answer) -> Response<Out> {
    let Answer { code, content_type, retry_after, body } = answer;
    let mut response = Response::new(Full::from(body).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
