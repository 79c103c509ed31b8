//! Repeats requests: rarely, and writes only if it is certain that the server did nothing.
//!
//! | what happened | get, list | write | watch |
//! |---|---|---|---|
//! | 429 with `Retry-After` | after that time | after that time | no |
//! | 5xx with `Retry-After` | after that time | no | no |
//! | connection refused, or lost before anything was sent | after 1 s | after 1 s | no |
//! | connection lost later | after 1 s | no | no |
//! | any other response or error | no | no | no |
//!
//! client-go (rest/with_retry.go) also repeats watches, and writes after 5xx with `Retry-After`. Here, only the
//! reflector repeats a watch. Each repetition takes a token of the client's rate limit, as the first attempt does.

use std::{sync::Arc, time::Duration};

use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::Instant;
use tower::BoxError;

use crate::{
    attempt::Attempts,
    fault::Fault,
    gate::{self, is_write},
    host_metrics::HostMetrics,
    response_body::{Measurement, ResponseBody},
    service::RawBody,
    traffic::is_watch,
};

/// Maximum number of repetitions of one request; client-go: `maxRetries` in rest/request.go.
pub const MAX_RETRIES: u32 = 10;

/// The wait after a lost connection; client-go: `retryAfterResponse`.
pub const WAIT_AFTER_LOSS: Duration = Duration::from_secs(1);

/// Maximum number of bytes that are read of an unwanted response, so that its connection stays usable.
const DRAIN_BYTES: usize = 2 << 10;
/// Longest time for that.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Whether a client repeats requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retries {
    /// Never: the caller decides about repetitions.
    None,
    /// By the table of this module.
    Obedient,
}

/// The columns of the table.
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

/// The module's table. Returns how long to wait before the next attempt, or `None` if there is none.
fn wait_before_retry(kind: Kind, outcome: &Result<Response<RawBody>, BoxError>) -> Option<Duration> {
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

/// Sends requests, repeats them by the module's table, and measures each request as a whole.
pub(crate) struct Retrying {
    pub(crate) attempts: Attempts,
    pub(crate) retries: Retries,
    pub(crate) metrics: Arc<HostMetrics>,
}

impl Retrying {
    /// Sends a request until the table says that no attempt follows.
    ///
    /// # Errors
    /// The error of the last attempt.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let started = Instant::now();
        let kind = Kind::of(&request);
        let method = request.method().clone();
        let mut retries = 0;
        let outcome = loop {
            let again = match self.retries {
                Retries::Obedient if kind != Kind::Watch && retries < MAX_RETRIES => copy(&request),
                Retries::Obedient | Retries::None => None,
            };
            let outcome = self.attempts.send(request).await;
            if retries > 0 && !matches!(&outcome, Err(error) if error.is::<gate::Error>()) {
                self.metrics.retried(&method, outcome.as_ref().ok().map(Response::status));
            }
            let (Some(again), Some(wait)) = (again, wait_before_retry(kind, &outcome)) else { break outcome };
            retries += 1;
            tracing::debug!(?wait, attempt = retries, %method, path = again.uri().path(), "Sending a request again");
            // Boxed: it is large, and rarely needed.
            Box::pin(async { tokio::join!(tokio::time::sleep(wait), drain(outcome)) }).await;
            request = again;
        };
        if kind == Kind::Watch {
            return outcome.map(|response| response.map(ResponseBody::unmeasured));
        }
        match outcome {
            Ok(response) => Ok(response.map(|body| {
                let metrics = self.metrics.clone();
                ResponseBody::measured(body, Measurement { started, method, bytes: 0, metrics })
            })),
            Err(error) => {
                self.metrics.took(&method, started.elapsed());
                Err(error)
            }
        }
    }
}

/// Reads the rest of an unwanted response, up to a limit, so that an HTTP/1.1 connection can be used again.
async fn drain(outcome: Result<Response<RawBody>, BoxError>) {
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
    // A timeout does not matter: the response is not needed.
    drop(tokio::time::timeout(DRAIN_TIME, rest).await);
}

/// Copies a request for a repetition, unless its body can be read only once. The body's bytes are shared, not copied.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

#[cfg(test)]
mod tests;
