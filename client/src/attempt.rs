//! One attempt of a request: limited, admitted, sent, counted.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Body as _;
use kube::client::Body;
use tower::{BoxError, Service, ServiceExt};

use crate::{
    gate::{self, WriteGate, is_write},
    limits::Limiter,
    metrics::Metrics,
    service::{BaseService, ResponseBody},
};

/// The label `code` where no answer came, as in client-go.
pub(crate) const NO_ANSWER: &str = "<error>";

/// A client's attempts: each waits for a token, is admitted by the gate if it is a write, goes out, and is counted
/// by how it ended. An attempt that was never sent (dropped while waiting, refused by the gate) is not counted.
#[derive(Clone)]
pub(crate) struct Attempts {
    service: BaseService,
    limiter: Limiter,
    gate: Option<Arc<dyn WriteGate>>,
    metrics: Metrics,
    host: Arc<str>,
}

impl Attempts {
    pub(crate) fn new(
        service: BaseService,
        limiter: Limiter,
        gate: Option<Arc<dyn WriteGate>>,
        metrics: Metrics,
        host: Arc<str>,
    ) -> Self {
        Self { service, limiter, gate, metrics, host }
    }

    async fn attempt(self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let Self { service, limiter, gate, metrics, host } = self;
        let method = request.method().clone();
        if let Some(waited) = limiter.acquire().await {
            metrics.waited(method.as_str(), &host, waited);
            if waited > LONG_WAIT {
                tracing::debug!(?waited, %method, path = request.uri().path(), "Waited for the client's own limit");
            }
        }
        if let Some(gate) = gate.filter(|_| is_write(&method)) {
            gate.admit().map_err(gate::Error::Refused)?;
        }
        if let Some(bytes) = request.body().size_hint().exact().filter(|bytes| *bytes > 0) {
            metrics.sent(method.as_str(), &host, bytes);
        }
        let outcome = service.oneshot(request).await;
        match &outcome {
            Ok(response) => metrics.attempted(response.status().as_str(), method.as_str(), &host),
            Err(_) => metrics.attempted(NO_ANSWER, method.as_str(), &host),
        }
        outcome
    }
}

/// From when on a wait in the limiter is worth a log line; client-go: `longThrottleLatency`.
const LONG_WAIT: std::time::Duration = std::time::Duration::from_millis(50);

impl Service<Request<Body>> for Attempts {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().attempt(request))
    }
}
