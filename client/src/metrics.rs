//! The metrics of requests to the API server, under client-go's names, labels and buckets.

use std::sync::Arc;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

/// The value of the label `code` where no response came; client-go's.
pub(crate) const NO_ANSWER: &str = "<error>";

/// The buckets of durations, in seconds; upstream: component-base/metrics/prometheus/restclient.
const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// The buckets of sizes, in bytes, from 64 B to 16 MB; from the same file.
const BYTES: [f64; 11] =
    [64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];

/// The families `rest_client_*`, shared by all clients of a process. A clone counts into the same families.
///
/// They count whether or not they are [registered](Metrics::register). The labels `verb` and `method` are the HTTP
/// method in capitals, `host` is the configured host and port of the server, and `code` is the status of the
/// response, or `<error>` if none came.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Families>);

#[derive(Debug)]
pub(crate) struct Families {
    pub(crate) requests: IntCounterVec,
    pub(crate) retries: IntCounterVec,
    pub(crate) duration: HistogramVec,
    pub(crate) rate_limiter: HistogramVec,
    pub(crate) request_size: HistogramVec,
    pub(crate) response_size: HistogramVec,
}

impl Metrics {
    /// Creates the families, all empty.
    pub fn new() -> Self {
        Self(Arc::new(Families {
            requests: counter(
                "rest_client_requests_total",
                "Number of HTTP requests, partitioned by status code, method, and host.",
                &["code", "method", "host"],
            ),
            retries: counter(
                "rest_client_request_retries_total",
                "Number of request retries, partitioned by status code, verb, and host.",
                &["code", "verb", "host"],
            ),
            duration: histogram(
                "rest_client_request_duration_seconds",
                "Request latency in seconds. Broken down by verb, and host.",
                &SECONDS,
            ),
            rate_limiter: histogram(
                "rest_client_rate_limiter_duration_seconds",
                "Client side rate limiter latency in seconds. Broken down by verb, and host.",
                &SECONDS,
            ),
            request_size: histogram(
                "rest_client_request_size_bytes",
                "Request size in bytes. Broken down by verb and host.",
                &BYTES,
            ),
            response_size: histogram(
                "rest_client_response_size_bytes",
                "Response size in bytes. Broken down by verb and host.",
                &BYTES,
            ),
        }))
    }

    /// Adds the families to `registry`.
    ///
    /// # Errors
    /// If the registry already has a family of one of these names. The families before that one stay registered.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        let Families { requests, retries, duration, rate_limiter, request_size, response_size } = &*self.0;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(retries.clone()))?;
        for histogram in [duration, rate_limiter, request_size, response_size] {
            registry.register(Box::new(histogram.clone()))?;
        }
        Ok(())
    }

    pub(crate) fn families(&self) -> &Arc<Families> {
        &self.0
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn counter(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    IntCounterVec::new(Opts::new(name, help), labels).expect("a constant metric description must be valid")
}

fn histogram(name: &str, help: &str, buckets: &[f64]) -> HistogramVec {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    HistogramVec::new(options, &["verb", "host"]).expect("a constant metric description must be valid")
}
