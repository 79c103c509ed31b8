//! The request metrics of one API server.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::{Method, StatusCode};
use prometheus::{Histogram, HistogramVec, IntCounter};

use crate::metrics::{Families, Metrics, NO_ANSWER};

/// The request metrics of one host, shared by all clients for it.
///
/// To find a counter or histogram by its labels, prometheus hashes the labels and takes a lock. A client does this
/// six times for a request, so this type keeps what it has found. It looks a child up when it is first used: a child
/// that was never used must not show in the metrics.
pub(crate) struct HostMetrics {
    families: Arc<Families>,
    host: Box<str>,
    methods: [Children; CACHED_METHODS.len()],
}

/// The methods that clients use. Requests with other methods look their children up each time.
const CACHED_METHODS: [Method; 5] = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// The frequent status codes. Requests that end otherwise look their counter up each time.
const CACHED_CODES: [StatusCode; 4] =
    [StatusCode::OK, StatusCode::CREATED, StatusCode::NOT_FOUND, StatusCode::CONFLICT];

/// What was looked up for one method.
#[derive(Default)]
struct Children {
    duration: OnceLock<Histogram>,
    rate_limiter: OnceLock<Histogram>,
    request_size: OnceLock<Histogram>,
    response_size: OnceLock<Histogram>,
    /// In the order of [`CACHED_CODES`].
    requests: [OnceLock<IntCounter>; CACHED_CODES.len()],
}

impl HostMetrics {
    /// Counts into the families of `metrics`, with the label `host`.
    pub(crate) fn new(metrics: &Metrics, host: &str) -> Self {
        Self { families: metrics.families().clone(), host: host.into(), methods: Default::default() }
    }

    /// Counts an attempt that was answered with `code`, or was not answered.
    pub(crate) fn attempted(&self, method: &Method, code: Option<StatusCode>) {
        let look_up = || {
            let labels = [label(code.as_ref()), method.as_str(), &self.host];
            self.families.requests.with_label_values(&labels)
        };
        let index = CACHED_CODES.iter().position(|cached| Some(*cached) == code);
        match (self.children(method), index) {
            (Some(children), Some(index)) => children.requests[index].get_or_init(look_up).inc(),
            _ => look_up().inc(),
        }
    }

    /// Counts an attempt after the first one that was answered with `code`, or was not answered.
    pub(crate) fn retried(&self, method: &Method, code: Option<StatusCode>) {
        let labels = [label(code.as_ref()), method.as_str(), &self.host];
        self.families.retries.with_label_values(&labels).inc();
    }

    /// Observes how long a request took until its response was complete, with all attempts and waits.
    pub(crate) fn took(&self, method: &Method, duration: Duration) {
        let family = &self.families.duration;
        self.observe(method, family, |children| &children.duration, duration.as_secs_f64());
    }

    /// Observes how long an attempt waited in the rate limiter, which may be no time.
    pub(crate) fn waited(&self, method: &Method, duration: Duration) {
        let family = &self.families.rate_limiter;
        self.observe(method, family, |children| &children.rate_limiter, duration.as_secs_f64());
    }

    /// Observes the size of an attempt's body in bytes.
    pub(crate) fn sent(&self, method: &Method, bytes: u64) {
        self.observe(method, &self.families.request_size, |children| &children.request_size, size(bytes));
    }

    /// Observes the size of a response's body in bytes.
    pub(crate) fn received(&self, method: &Method, bytes: u64) {
        self.observe(method, &self.families.response_size, |children| &children.response_size, size(bytes));
    }

    fn observe(
        &self,
        method: &Method,
        family: &HistogramVec,
        child: impl FnOnce(&Children) -> &OnceLock<Histogram>,
        value: f64,
    ) {
        let look_up = || family.with_label_values(&[method.as_str(), &self.host]);
        match self.children(method) {
            Some(children) => child(children).get_or_init(look_up).observe(value),
            None => look_up().observe(value),
        }
    }

    fn children(&self, method: &Method) -> Option<&Children> {
        let index = CACHED_METHODS.iter().position(|cached| cached == method)?;
        Some(&self.methods[index])
    }
}

fn label(code: Option<&StatusCode>) -> &str {
    code.map_or(NO_ANSWER, StatusCode::as_str)
}

#[expect(clippy::cast_precision_loss, reason = "no body has 2^53 bytes")]
fn size(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;

    use super::*;

    #[test]
    fn only_children_that_were_used_are_shown_and_hosts_do_not_mix() {
        let (metrics, registry) = (Metrics::new(), Registry::new());
        metrics.register(&registry).unwrap();
        let (one, two) = (HostMetrics::new(&metrics, "one"), HostMetrics::new(&metrics, "two"));
        for code in [Some(StatusCode::OK), Some(StatusCode::OK), Some(StatusCode::IM_A_TEAPOT), None] {
            one.attempted(&Method::GET, code);
        }
        two.attempted(&Method::GET, Some(StatusCode::OK));
        two.attempted(&Method::OPTIONS, Some(StatusCode::OK));
        let mut counted: Vec<_> = registry
            .gather()
            .iter()
            .flat_map(|family| family.get_metric())
            .map(|metric| {
                let labels: Vec<_> = metric.get_label().iter().map(|label| label.value()).collect();
                format!("{} {}", labels.join(" "), metric.get_counter().get_value())
            })
            .collect();
        counted.sort();
        assert_eq!(
            counted,
            ["200 one GET 2", "200 two GET 1", "200 two OPTIONS 1", "418 one GET 1", "<error> one GET 1"]
        );
    }
}
