//! When a request is sent again: rarely, and a write only where the server surely did nothing.
//!
//! | what happened | get, list | write | watch |
//! |---|---|---|---|
//! | 429 with `Retry-After` | after that time | after that time | no |
//! | 5xx with `Retry-After` | after that time | no | no |
//! | connection refused, or lost before anything was sent | after 1 s | after 1 s | no |
//! | connection lost later | after 1 s | no | no |
//! | any other answer or error | no | no | no |
//!
//! client-go (rest/with_retry.go) also repeats writes after 5xx with `Retry-After`, and watches; here a watch is
//! repeated by its reflector only. Each repetition takes a token of the client's limit like the first attempt.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use crate::{
    attempt::NO_ANSWER,
    fault::Fault,
    gate::{self, is_write},
    measured_body::MeasuredBody,
    metrics::Metrics,
    service::{ResponseBody, box_body},
    traffic::is_watch,
};

/// How often one request is repeated at most; client-go: `maxRetries` in rest/request.go.
pub const MAX_RETRIES: u32 = 10;

/// The wait after a lost connection; client-go: `retryAfterResponse`.
pub const WAIT_AFTER_LOSS: Duration = Duration::from_secs(1);

/// How much of an answer that is not wanted is read so that its connection stays usable, and for how long.
const DRAIN_BYTES: usize = 2 << 10;
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Whether a client repeats requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retries {
    /// Never: the caller has rules of its own.
    None,
    /// By the module's table.
    Obedient,
}

/// What a request is to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Watch,
}

impl Kind {
    fn of(request: &Request<Body>) -> Self {
        match () {
            () if is_watch(request) => Kind::Watch,
            () if is_write(request.method()) => Kind::Write,
            () => Kind::Read,
        }
    }
}

/// The module's table: how long to wait before the request is sent again, or `None` if this was the end.
fn wait_before_retry(kind: Kind, outcome: &Result<Response<ResponseBody>, BoxError>) -> Option<Duration> {
    match (kind, outcome) {
        (Kind::Watch, _) => None,
        (_, Ok(response)) if response.status() == StatusCode::TOO_MANY_REQUESTS => retry_after(response),
        (Kind::Read, Ok(response)) if response.status().is_server_error() => retry_after(response),
        (_, Ok(_)) => None,
        (kind, Err(error)) => match (Fault::of(&**error), kind) {
            (Fault::Unreachable, _) | (Fault::Broken, Kind::Read) => Some(WAIT_AFTER_LOSS),
            (Fault::Broken | Fault::Other, _) => None,
        },
    }
}

/// `Retry-After` in whole seconds, the only form API servers send.
fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse::<u32>().ok()?;
    Some(Duration::from_secs(u64::from(seconds)))
}

/// Sends requests through `S` until the table says that it was the end; measures the whole.
#[derive(Clone)]
pub(crate) struct Retrying<S> {
    attempts: S,
    retries: Retries,
    metrics: Metrics,
    host: Arc<str>,
}

impl<S> Retrying<S>
where
    S: Service<Request<Body>, Response = Response<ResponseBody>, Error = BoxError> + Clone,
{
    pub(crate) fn new(attempts: S, retries: Retries, metrics: Metrics, host: Arc<str>) -> Self {
        Self { attempts, retries, metrics, host }
    }

    async fn run(self, mut request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let started = Instant::now();
        let kind = Kind::of(&request);
        let method = request.method().clone();
        let mut retries = 0;
        let outcome = loop {
            let again = match self.retries {
                Retries::Obedient if kind != Kind::Watch && retries < MAX_RETRIES => copy(&request),
                Retries::Obedient | Retries::None => None,
            };
            let outcome = self.attempts.clone().oneshot(request).await;
            if retries > 0 && !matches!(&outcome, Err(error) if error.is::<gate::Error>()) {
                let code = outcome
                    .as_ref()
                    .map_or(NO_ANSWER.to_owned(), |answer| answer.status().as_str().to_owned());
                self.metrics.retried(&code, method.as_str(), &self.host);
            }
            let (Some(again), Some(wait)) = (again, wait_before_retry(kind, &outcome)) else { break outcome };
            retries += 1;
            tracing::debug!(?wait, attempt = retries, %method, path = again.uri().path(), "Sending a request again");
            tokio::join!(tokio::time::sleep(wait), drain(outcome));
            request = again;
        };
        if kind == Kind::Watch {
            return outcome;
        }
        let Self { metrics, host, .. } = self;
        match outcome {
            Ok(response) => Ok(box_body(response.map(|body| MeasuredBody {
                body,
                started,
                method,
                host,
                metrics,
                bytes: 0,
                observed: false,
            }))),
            Err(error) => {
                metrics.took(method.as_str(), &host, started.elapsed());
                Err(error)
            }
        }
    }
}

/// Reads what is left of an unwanted answer, within reason, so that an HTTP/1.1 connection can be used again.
async fn drain(outcome: Result<Response<ResponseBody>, BoxError>) {
    let Ok(mut response) = outcome else { return };
    let rest = async {
        let mut bytes = 0;
        while let Some(Ok(frame)) = response.body_mut().frame().await {
            bytes += frame.data_ref().map_or(0, bytes::Bytes::len);
            if bytes > DRAIN_BYTES {
                break;
            }
        }
    };
    // In time or not: the answer is not wanted.
    drop(tokio::time::timeout(DRAIN_TIME, rest).await);
}

/// A second copy of the request, unless its body can be read only once.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

impl<S> Service<Request<Body>> for Retrying<S>
where
    S: Service<Request<Body>, Response = Response<ResponseBody>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().run(request))
    }
}

#[cfg(test)]
mod tests;
