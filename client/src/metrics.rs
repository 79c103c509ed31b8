//! The metrics of requests to the API server, under client-go's names, labels and buckets.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

/// `le` bounds in seconds; upstream: component-base/metrics/prometheus/restclient.
const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// `le` bounds in bytes, 64 B to 16 MB; from the same file.
const BYTES: [f64; 11] =
    [64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];

/// The families `rest_client_*`, shared by all clients of a process.
///
/// A clone counts into the same families. They work whether or not they are [registered](Metrics::register).
/// `verb` and `method` are the HTTP method in capitals, `host` is host and port of the server as configured,
/// `code` is the status or `<error>` where no answer came.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: IntCounterVec,
    retries: IntCounterVec,
    duration: HistogramVec,
    rate_limiter: HistogramVec,
    request_size: HistogramVec,
    response_size: HistogramVec,
}

impl Metrics {
    /// New families, all empty.
    pub fn new() -> Self {
        Self {
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
        }
    }

    /// Shows the families in `registry`.
    ///
    /// # Errors
    /// When the registry has a family of one of these names already; those before it stay registered.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.requests.clone()))?;
        registry.register(Box::new(self.retries.clone()))?;
        for histogram in [&self.duration, &self.rate_limiter, &self.request_size, &self.response_size] {
            registry.register(Box::new(histogram.clone()))?;
        }
        Ok(())
    }

    /// One attempt ended with `code`.
    pub(crate) fn attempted(&self, code: &str, method: &str, host: &str) {
        self.requests.with_label_values(&[code, method, host]).inc();
    }

    /// One attempt after the first ended with `code`.
    pub(crate) fn retried(&self, code: &str, method: &str, host: &str) {
        self.retries.with_label_values(&[code, method, host]).inc();
    }

    /// A request was answered in full, attempts and waits included.
    pub(crate) fn took(&self, method: &str, host: &str, duration: Duration) {
        self.duration.with_label_values(&[method, host]).observe(duration.as_secs_f64());
    }

    /// An attempt waited in the rate limiter, be it for no time.
    pub(crate) fn waited(&self, method: &str, host: &str, duration: Duration) {
        self.rate_limiter.with_label_values(&[method, host]).observe(duration.as_secs_f64());
    }

    /// An attempt carried a body of `bytes`.
    pub(crate) fn sent(&self, method: &str, host: &str, bytes: u64) {
        self.request_size.with_label_values(&[method, host]).observe(size(bytes));
    }

    /// An answer's body had `bytes`.
    pub(crate) fn received(&self, method: &str, host: &str, bytes: u64) {
        self.response_size.with_label_values(&[method, host]).observe(size(bytes));
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a body of 2^53 bytes is out of reach")]
fn size(bytes: u64) -> f64 {
    bytes as f64
}

fn counter(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    IntCounterVec::new(Opts::new(name, help), labels).expect("a constant metric description must be valid")
}

fn histogram(name: &str, help: &str, buckets: &[f64]) -> HistogramVec {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    HistogramVec::new(options, &["verb", "host"]).expect("a constant metric description must be valid")
}
