//! `/metrics/slis`: the results of health checks, for service level indicators.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus::{Encoder, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

/// Counts the results of health checks. Clones count in the same metrics.
#[derive(Debug, Clone)]
pub(crate) struct Slis {
    registry: Registry,
    last: IntGaugeVec,
    all: IntCounterVec,
}

impl Slis {
    /// Metrics without results.
    ///
    /// # Errors
    /// If a metric's description is invalid.
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let last = IntGaugeVec::new(
            Opts::new(
                "kubernetes_healthcheck",
                "[STABLE] This metric records the result of a single healthcheck.",
            ),
            &["name", "type"],
        )?;
        let all = IntCounterVec::new(
            Opts::new(
                "kubernetes_healthchecks_total",
                "[STABLE] This metric records the results of all healthcheck.",
            ),
            &["name", "status", "type"],
        )?;
        registry.register(Box::new(last.clone()))?;
        registry.register(Box::new(all.clone()))?;
        Ok(Self { registry, last, all })
    }

    /// Counts a result of the check `name` of the endpoint `of`, such as `readyz`.
    pub(super) fn observe(&self, name: &str, of: &str, result: &Result<(), String>) {
        let status = if result.is_ok() { "success" } else { "error" };
        self.last.with_label_values(&[name, of]).set(i64::from(result.is_ok()));
        self.all.with_label_values(&[name, status, of]).inc();
    }

    /// The metrics in Prometheus's text format.
    pub(super) fn page(&self) -> Response {
        let mut text = Vec::new();
        match TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            Ok(()) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
}
