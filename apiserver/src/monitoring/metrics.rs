//! The metrics of a server, by upstream's names.

use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use super::labels::Labels;

/// Upstream's buckets of `apiserver_request_duration_seconds`, in seconds.
const BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// Why metrics can be made: their names and labels are constants.
const WELL_FORMED: &str = "the metrics must be well-formed";

/// The metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    durations: HistogramVec,
    streams: IntGaugeVec,
    in_flight: IntGaugeVec,
    audit_events: IntCounter,
    audit_errors: IntCounterVec,
}

impl Metrics {
    /// Metrics that nothing has been counted in.
    pub(super) fn new() -> Self {
        let with = |more: &[&'static str]| -> Vec<&'static str> {
            Labels::NAMES.iter().chain(&["dry_run"]).chain(more).copied().collect()
        };
        let all = Self {
            registry: Registry::new(),
            requests: IntCounterVec::new(
                Opts::new(
                    "apiserver_request_total",
                    "Requests, by what they asked for and the code of the answer",
                ),
                &with(&["code"]),
            )
            .expect(WELL_FORMED),
            durations: HistogramVec::new(
                HistogramOpts::new(
                    "apiserver_request_duration_seconds",
                    "Time from the head of a request until its answer was handed to the connection",
                )
                .buckets(BUCKETS.to_vec()),
                &with(&[]),
            )
            .expect(WELL_FORMED),
            streams: IntGaugeVec::new(
                Opts::new("apiserver_longrunning_requests", "Watches, logs and streams under way"),
                &Labels::NAMES,
            )
            .expect(WELL_FORMED),
            in_flight: IntGaugeVec::new(
                Opts::new(
                    "apiserver_current_inflight_requests",
                    "Requests under way that are limited in number",
                ),
                &["request_kind"],
            )
            .expect(WELL_FORMED),
            audit_events: IntCounter::new("apiserver_audit_event_total", "Events for the audit log")
                .expect(WELL_FORMED),
            audit_errors: IntCounterVec::new(
                Opts::new(
                    "apiserver_audit_error_total",
                    "Events that the audit log lacks since they could not be written",
                ),
                &["plugin"],
            )
            .expect(WELL_FORMED),
        };
        let parts: [Box<dyn Collector>; 6] = [
            Box::new(all.requests.clone()),
            Box::new(all.durations.clone()),
            Box::new(all.streams.clone()),
            Box::new(all.in_flight.clone()),
            Box::new(all.audit_events.clone()),
            Box::new(all.audit_errors.clone()),
        ];
        for part in parts {
            all.registry.register(part).expect(WELL_FORMED);
        }
        all
    }

    /// The registry that has them all.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The number of requests under way: of those that write, or of those that only read.
    pub(crate) fn in_flight(&self, writes: bool) -> IntGauge {
        self.in_flight.with_label_values(&[if writes { "mutating" } else { "readOnly" }])
    }

    pub(super) fn stream_begins(&self, labels: &Labels) {
        self.streams.with_label_values(&labels.values()).inc();
    }

    pub(super) fn stream_ends(&self, labels: &Labels) {
        self.streams.with_label_values(&labels.values()).dec();
    }

    pub(super) fn answered(&self, labels: &Labels, code: u16, took: Duration) {
        let [verb, group, version, resource, subresource, scope, component] = labels.values();
        let dry_run = labels.dry_run();
        let code = code.to_string();
        let with_code = [verb, group, version, resource, subresource, scope, component, dry_run, &code];
        self.requests.with_label_values(&with_code).inc();
        self.durations.with_label_values(&with_code[..8]).observe(took.as_secs_f64());
    }

    /// An event was written to the audit log, or could not be.
    pub(super) fn audited(&self, is_written: bool) {
        self.audit_events.inc();
        if !is_written {
            self.audit_errors.with_label_values(&["log"]).inc();
        }
    }
}

/// What is stored, counted whenever somebody asks.
pub(crate) struct Stored<F> {
    /// Returns the number of bytes, and of each resource its group, its name and the number of objects.
    count: F,
    /// What the families are, without a series.
    families: [IntGaugeVec; 2],
}

/// The families for the number of objects, and for their bytes.
fn stored() -> [IntGaugeVec; 2] {
    let objects = Opts::new("apiserver_resource_objects", "Stored objects");
    let bytes = Opts::new("apiserver_storage_size_bytes", "Bytes that all objects take as they are stored");
    [(objects, &["group", "resource"][..]), (bytes, &["storage_cluster_id"])]
        .map(|(options, labels)| IntGaugeVec::new(options, labels).expect(WELL_FORMED))
}

impl<F: Fn() -> (u64, Vec<(String, String, usize)>)> Stored<F> {
    /// Counted by this function.
    pub(crate) fn new(count: F) -> Self {
        Self { count, families: stored() }
    }
}

impl<F: Fn() -> (u64, Vec<(String, String, usize)>) + Send + Sync> Collector for Stored<F> {
    fn desc(&self) -> Vec<&Desc> {
        self.families.iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (used, resources) = (self.count)();
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        // Two who ask at once do not share them.
        let [objects, bytes] = stored();
        bytes.with_label_values(&["embedded"]).set(signed(used));
        for (group, resource, count) in resources {
            objects.with_label_values(&[&group, &resource]).set(signed(count as u64));
        }
        objects.collect().into_iter().chain(bytes.collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_counted_when_somebody_asks() {
        let metrics = Metrics::new();
        let resources = || (7, vec![("apps".to_owned(), "deployments".to_owned(), 2)]);
        metrics.registry().register(Box::new(Stored::new(resources))).unwrap();
        let text = prometheus::TextEncoder::new().encode_to_string(&metrics.registry().gather()).unwrap();
        for line in [
            "apiserver_resource_objects{group=\"apps\",resource=\"deployments\"} 2",
            "apiserver_storage_size_bytes{storage_cluster_id=\"embedded\"} 7",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }
}
