//! The metrics of the server, under the kubelet's names, labels and buckets.

use http::Method;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};
use tokio::time::Instant;

const LABELS: [&str; 4] = ["method", "path", "server_type", "long_running"];

/// The families `kubelet_http_*`. A clone counts into the same ones, registered or not.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: IntCounterVec,
    duration: HistogramVec,
    in_flight: IntGaugeVec,
}

impl Metrics {
    /// New families, all empty.
    pub fn new() -> Self {
        let must = "names and labels must be well-formed";
        let duration = HistogramOpts::new(
            "kubelet_http_requests_duration_seconds",
            "Duration in seconds to serve http requests",
        );
        Self {
            requests: IntCounterVec::new(
                Opts::new(
                    "kubelet_http_requests_total",
                    "Number of the http requests received since the server started",
                ),
                &LABELS,
            )
            .expect(must),
            duration: HistogramVec::new(duration, &LABELS).expect(must),
            in_flight: IntGaugeVec::new(
                Opts::new("kubelet_http_inflight_requests", "Number of the inflight http requests"),
                &LABELS,
            )
            .expect(must),
        }
    }

    /// Shows the families in `registry`.
    ///
    /// # Errors
    /// When the registry has a family of one of these names already; those before it stay registered.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.requests.clone()))?;
        registry.register(Box::new(self.duration.clone()))?;
        registry.register(Box::new(self.in_flight.clone()))
    }

    /// A request begins; it ends when what this gives is dropped.
    pub(super) fn begin(&self, method: &Method, path: &str) -> InFlight {
        let path = path_bucket(path);
        let long_running = if matches!(path, "exec" | "attach" | "debug") { "true" } else { "false" };
        let labels = [method_bucket(method), path, "readwrite", long_running];
        self.requests.with_label_values(&labels).inc();
        self.in_flight.with_label_values(&labels).inc();
        InFlight { metrics: self.clone(), labels, began: Instant::now() }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// A request under way.
pub(super) struct InFlight {
    metrics: Metrics,
    labels: [&'static str; 4],
    began: Instant,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.metrics.in_flight.with_label_values(&self.labels).dec();
        self.metrics.duration.with_label_values(&self.labels).observe(self.began.elapsed().as_secs_f64());
    }
}

/// Whatever clients invent has one label.
fn method_bucket(method: &Method) -> &'static str {
    ["OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"]
        .into_iter()
        .find(|known| *known == method.as_str())
        .unwrap_or("other")
}

fn path_bucket(path: &str) -> &'static str {
    let mut segments = path.strip_prefix('/').unwrap_or(path).splitn(3, '/');
    let (root, next) = (segments.next().unwrap_or_default(), segments.next());
    match (root, next) {
        ("metrics", Some("cadvisor")) => "metrics/cadvisor",
        ("metrics", Some("probes")) => "metrics/probes",
        ("metrics", Some("resource")) => "metrics/resource",
        ("metrics", Some(_)) => "other",
        _ => [
            "healthz",
            "pods",
            "stats",
            "metrics",
            "run",
            "exec",
            "attach",
            "portForward",
            "containerLogs",
            "configz",
            "runningpods",
            "checkpoint",
            "logs",
            "debug",
        ]
        .into_iter()
        .find(|known| *known == root)
        .unwrap_or("other"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_upstreams_buckets() {
        for (path, bucket) in [
            ("/healthz/ping", "healthz"),
            ("/exec/ns/p/c", "exec"),
            ("/portForward/ns/p", "portForward"),
            ("/metrics", "metrics"),
            ("/metrics/cadvisor", "metrics/cadvisor"),
            ("/metrics/cadvisor/x", "metrics/cadvisor"),
            ("/metrics/other", "other"),
            ("/runningpods/", "runningpods"),
            ("/debug/pprof/heap", "debug"),
            ("/invented", "other"),
            ("/", "other"),
            ("", "other"),
        ] {
            assert_eq!(path_bucket(path), bucket, "{path}");
        }
        assert_eq!(method_bucket(&Method::PATCH), "other");
    }

    #[test]
    fn a_request_is_in_flight_until_it_ends() {
        let (metrics, registry) = (Metrics::new(), Registry::new());
        metrics.register(&registry).unwrap();
        let labels = ["POST", "exec", "readwrite", "true"];
        let request = metrics.begin(&Method::POST, "/exec/ns/p/c");
        assert_eq!(metrics.in_flight.with_label_values(&labels).get(), 1);
        drop(request);
        assert_eq!(metrics.in_flight.with_label_values(&labels).get(), 0);
        assert_eq!(metrics.requests.with_label_values(&labels).get(), 1);
        assert_eq!(metrics.duration.with_label_values(&labels).get_sample_count(), 1);
        assert_eq!(registry.gather().len(), 3);
    }
}
