//! One attempt to send a request: wait for the rate limit, ask the gate, send, count.

use std::{sync::Arc, time::Duration};

use http::{Request, Response};
use http_body::Body as _;
use kube::client::Body;
use tower::{BoxError, ServiceExt};

use crate::{
    gate::{self, WriteGate, is_write},
    host_metrics::HostMetrics,
    limits::Limiter,
    service::{BaseService, RawBody},
};

/// The attempts of one client.
///
/// Each attempt takes a token from the client's rate limiter. If it is a write, it then asks the gate. Then the
/// service sends it, and the metrics count how it ended. An attempt that was not sent, because the caller dropped it
/// while it waited or because the gate refused it, is not counted.
pub(crate) struct Attempts {
    pub(crate) service: BaseService,
    pub(crate) limiter: Limiter,
    pub(crate) gate: Option<Arc<dyn WriteGate>>,
    pub(crate) metrics: Arc<HostMetrics>,
}

/// The shortest wait in the rate limiter that is logged; client-go: `longThrottleLatency`.
const LONG_WAIT: Duration = Duration::from_millis(50);

impl Attempts {
    /// Makes one attempt.
    ///
    /// # Errors
    /// [`gate::Error::Refused`] if the gate does not admit the write; otherwise the service's error.
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Response<RawBody>, BoxError> {
        let method = request.method().clone();
        if let Some(waited) = self.limiter.acquire().await {
            self.metrics.waited(&method, waited);
            if waited > LONG_WAIT {
                tracing::debug!(?waited, %method, path = request.uri().path(), "Waited for the client's own limit");
            }
        }
        if let Some(gate) = &self.gate
            && is_write(&method)
        {
            gate.admit().map_err(gate::Error::Refused)?;
        }
        if let Some(bytes) = request.body().size_hint().exact().filter(|bytes| *bytes > 0) {
            self.metrics.sent(&method, bytes);
        }
        let outcome = self.service.clone().oneshot(request).await;
        self.metrics.attempted(&method, outcome.as_ref().ok().map(Response::status));
        outcome
    }
}
